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

// Affine maps: both axes of a slice move together only if whole rows are read; a reversed row is one run backwards.
// CHECK-LABEL: func.func @slices
// CHECK:         juju.nest array<i64: 12> ["parallel"]
// CHECK-SAME:    affine_map<(d0) -> ((d0 + 4))>
// CHECK:         juju.nest array<i64: 3, 2> ["parallel", "parallel"]
// CHECK:         juju.nest array<i64: 20> ["parallel"]
// CHECK-SAME:    affine_map<(d0) -> (((d0 * -1) + 19))>
func.func @slices(%x: tensor<5x4xf32>) -> (tensor<3x4xf32>, tensor<3x2xf32>, tensor<5x4xf32>) {
  %a = juju.nest array<i64: 3, 4> ["parallel", "parallel"] maps [affine_map<(d0, d1) -> (d0 + 1, d1)>, affine_map<(d0, d1) -> (d0, d1)>] ins(%x : tensor<5x4xf32>) {
  ^bb0(%p: f32):
    juju.yield %p : f32
  } : tensor<3x4xf32>
  %b = juju.nest array<i64: 3, 2> ["parallel", "parallel"] maps [affine_map<(d0, d1) -> (d0 + 1, d1)>, affine_map<(d0, d1) -> (d0, d1)>] ins(%x : tensor<5x4xf32>) {
  ^bb0(%p: f32):
    juju.yield %p : f32
  } : tensor<3x2xf32>
  %c = juju.nest array<i64: 5, 4> ["parallel", "parallel"] maps [affine_map<(d0, d1) -> (4 - d0, 3 - d1)>, affine_map<(d0, d1) -> (d0, d1)>] ins(%x : tensor<5x4xf32>) {
  ^bb0(%p: f32):
    juju.yield %p : f32
  } : tensor<5x4xf32>
  func.return %a, %b, %c : tensor<3x4xf32>, tensor<3x2xf32>, tensor<5x4xf32>
}

// Loops that are reduced become one among themselves, never with those that are not.
// CHECK-LABEL: func.func @reduced
// CHECK:         juju.nest array<i64: 5, 12> ["parallel", "reduction"]
func.func @reduced(%x: tensor<5x3x4xf32>) -> tensor<5xf32> {
  %a = juju.nest array<i64: 5, 3, 4> ["parallel", "reduction", "reduction"] maps [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0)>] ins(%x : tensor<5x3x4xf32>) {
  ^bb0(%p: f32):
    %s = juju.reduce "add" %p : f32 -> f32
    juju.yield %s : f32
  } : tensor<5xf32>
  func.return %a : tensor<5xf32>
}

// A loop whose index is asked for stays.
// CHECK-LABEL: func.func @counted
// CHECK:         juju.nest array<i64: 3, 4> ["parallel", "parallel"]
func.func @counted() -> tensor<3x4xi32> {
  %a = juju.nest array<i64: 3, 4> ["parallel", "parallel"] maps [affine_map<(d0, d1) -> (d0, d1)>] {
    %i = juju.index 1
    %q = juju.convert %i : index -> i32
    juju.yield %q : i32
  } : tensor<3x4xi32>
  func.return %a : tensor<3x4xi32>
}
