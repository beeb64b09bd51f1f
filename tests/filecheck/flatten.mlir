// RUN: juju-opt %s -p juju-flatten,dce | filecheck %s

// Row-major reads lose their axes; the reshapes around them move no memory.
// CHECK-LABEL: func.func @flat
// CHECK:         juju.reshape %x : tensor<2x3x4xf32> -> tensor<24xf32>
// CHECK:         juju.nest array<i64: 24> ["parallel"]
// CHECK:         juju.reshape %{{.*}} : tensor<24xf32> -> tensor<2x3x4xf32>
func.func @flat(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %a = juju.nest array<i64: 2, 3, 4> ["parallel", "parallel", "parallel"] maps [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>] ins(%x : tensor<2x3x4xf32>) {
  ^bb0(%p: f32):
    %q = juju.abs %p : f32
    juju.yield %q : f32
  } : tensor<2x3x4xf32>
  func.return %a : tensor<2x3x4xf32>
}

// A transposed read is not row-major, and stays as it is.
// CHECK-LABEL: func.func @transposed
// CHECK:         juju.nest array<i64: 2, 3>
func.func @transposed(%x: tensor<3x2xf32>) -> tensor<2x3xf32> {
  %a = juju.nest array<i64: 2, 3> ["parallel", "parallel"] maps [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>] ins(%x : tensor<3x2xf32>) {
  ^bb0(%p: f32):
    %q = juju.abs %p : f32
    juju.yield %q : f32
  } : tensor<2x3xf32>
  func.return %a : tensor<2x3xf32>
}
