// RUN: juju-opt %s -p juju-weave,juju-simplify | filecheck %s

// Points in space: one vector holds many points, and a point's three coordinates are written side by side.
// CHECK-LABEL: func.func @points
// CHECK:         juju.nest array<i64: 64> ["parallel"]
// CHECK-SAME:    affine_map<(d0) -> (d0, 0)>, affine_map<(d0) -> (0)>, affine_map<(d0) -> (d0, 1)>, affine_map<(d0) -> (1)>
// CHECK:           juju.weave %{{.*}}, %{{.*}}, %{{.*}} : f32, f32, f32 -> vector<3xf32>
func.func @points(%x: tensor<64x3xf32>, %b: tensor<3xf32>) -> tensor<64x3xf32> {
  %a = juju.nest array<i64: 64, 3> ["parallel", "parallel"] maps [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>] ins(%x, %b : tensor<64x3xf32>, tensor<3xf32>) {
  ^bb0(%p: f32, %q: f32):
    %r = juju.add %p, %q : f32, f32
    juju.yield %r : f32
  } : tensor<64x3xf32>
  func.return %a : tensor<64x3xf32>
}

// What was chosen by the index of the loop is known at each step: every part is computed once.
// CHECK-LABEL: func.func @stack
// CHECK-NOT:     juju.select
// CHECK:         juju.sin
// CHECK-NOT:     juju.sin
// CHECK:         juju.cos
// CHECK-NOT:     juju.select
// CHECK:         juju.weave
func.func @stack(%x: tensor<64xf32>) -> tensor<64x2xf32> {
  %a = juju.nest array<i64: 64, 2> ["parallel", "parallel"] maps [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>] ins(%x : tensor<64xf32>) {
  ^bb0(%p: f32):
    %s = juju.sin %p : f32
    %two = juju.const 2.000000e+00 : f32 -> f32
    %q = juju.mul %p, %two : f32, f32
    %c = juju.cos %q : f32
    %i = juju.index 1
    %one = juju.const 1 : index -> index
    %first = juju.lt %i, %one : index
    %r = juju.select %first, %c, %s : i1, f32, f32 -> f32
    juju.yield %r : f32
  } : tensor<64x2xf32>
  func.return %a : tensor<64x2xf32>
}

// Five steps are left to vectors along them, and so are three of a few points.
// CHECK-LABEL: func.func @others
// CHECK:         juju.nest array<i64: 64, 5>
// CHECK:         juju.nest array<i64: 4, 3>
func.func @others(%x: tensor<5xf32>, %y: tensor<3xf32>) -> (tensor<64x5xf32>, tensor<4x3xf32>) {
  %a = juju.nest array<i64: 64, 5> ["parallel", "parallel"] maps [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>] ins(%x : tensor<5xf32>) {
  ^bb0(%p: f32):
    juju.yield %p : f32
  } : tensor<64x5xf32>
  %b = juju.nest array<i64: 4, 3> ["parallel", "parallel"] maps [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>] ins(%y : tensor<3xf32>) {
  ^bb0(%p: f32):
    juju.yield %p : f32
  } : tensor<4x3xf32>
  func.return %a, %b : tensor<64x5xf32>, tensor<4x3xf32>
}
