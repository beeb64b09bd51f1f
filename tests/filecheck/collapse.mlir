// RUN: juju-opt %s -p juju-collapse | filecheck %s

// A bias over channels: batch and time are one loop, and so the text does not depend on how many axes there were.
// CHECK-LABEL: func.func @bias
// CHECK:         juju.reshape %x : tensor<2x3x4xf32> -> tensor<6x4xf32>
// CHECK:         juju.nest array<i64: 6, 4>
// CHECK-SAME:    affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>
func.func @bias(%x: tensor<2x3x4xf32>, %b: tensor<4xf32>) -> tensor<2x3x4xf32> {
  %a = juju.nest array<i64: 2, 3, 4> ["parallel", "parallel", "parallel"] maps [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>] ins(%x, %b : tensor<2x3x4xf32>, tensor<4xf32>) {
  ^bb0(%p: f32, %q: f32):
    %r = juju.add %p, %q : f32, f32
    juju.yield %r : f32
  } : tensor<2x3x4xf32>
  func.return %a : tensor<2x3x4xf32>
}

// An axis that is stretched is no axis of the operand any more.
// CHECK-LABEL: func.func @column
// CHECK:         juju.reshape %c : tensor<5x1xf32> -> tensor<5xf32>
// CHECK:         affine_map<(d0, d1) -> (d0)>
func.func @column(%x: tensor<5x7xf32>, %c: tensor<5x1xf32>) -> tensor<5x7xf32> {
  %a = juju.nest array<i64: 5, 7> ["parallel", "parallel"] maps [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, 0)>, affine_map<(d0, d1) -> (d0, d1)>] ins(%x, %c : tensor<5x7xf32>, tensor<5x1xf32>) {
  ^bb0(%p: f32, %q: f32):
    %r = juju.add %p, %q : f32, f32
    juju.yield %r : f32
  } : tensor<5x7xf32>
  func.return %a : tensor<5x7xf32>
}
