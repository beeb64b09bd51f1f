// RUN: juju-opt %s -p juju-outline-kernels | filecheck %s

// Independent nests share one kernel, also over different spaces.
// CHECK-LABEL: func.func @two_spaces
// CHECK:         juju.kernel "two_spaces"
// CHECK:           juju.nest array<i64: 4>
// CHECK:           juju.nest array<i64: 8>
// CHECK-NOT:     juju.kernel
func.func @two_spaces(%x: tensor<4xf32>, %y: tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  %a = juju.nest array<i64: 4> ["parallel"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>] ins(%x : tensor<4xf32>) {
  ^bb0(%p: f32):
    %q = juju.neg %p : f32
    juju.yield %q : f32
  } : tensor<4xf32>
  %b = juju.nest array<i64: 8> ["parallel"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>] ins(%y : tensor<8xf32>) {
  ^bb0(%p: f32):
    %q = juju.neg %p : f32
    juju.yield %q : f32
  } : tensor<8xf32>
  func.return %a, %b : tensor<4xf32>, tensor<8xf32>
}

// A nest that reads another's result comes in the next kernel.
// CHECK-LABEL: func.func @dependent
// CHECK:         juju.kernel "dependent_0"
// CHECK:         juju.kernel "dependent_1"
func.func @dependent(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = juju.nest array<i64: 4> ["parallel"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>] ins(%x : tensor<4xf32>) {
  ^bb0(%p: f32):
    %q = juju.neg %p : f32
    juju.yield %q : f32
  } : tensor<4xf32>
  %b = juju.nest array<i64: 4> ["parallel"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>] ins(%a : tensor<4xf32>) {
  ^bb0(%p: f32):
    %q = juju.neg %p : f32
    juju.yield %q : f32
  } : tensor<4xf32>
  func.return %b : tensor<4xf32>
}
