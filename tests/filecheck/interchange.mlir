// RUN: juju-opt %s -p juju-interchange | filecheck %s

// Every pair of points: nothing is read along both loops, so many rows are summed at once, one in each lane.
// CHECK-LABEL: func.func @pairs
// CHECK:         juju.nest array<i64: 40, 64> ["reduction", "parallel"]
// CHECK-SAME:    affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d1)>]
func.func @pairs(%x: tensor<64xf32>, %y: tensor<40xf32>) -> tensor<64xf32> {
  %a = juju.nest array<i64: 64, 40> ["parallel", "reduction"] maps [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>] ins(%x, %y : tensor<64xf32>, tensor<40xf32>) {
  ^bb0(%p: f32, %q: f32):
    %d = juju.sub %p, %q : f32, f32
    %s = juju.reduce "add" %d : f32 -> f32
    juju.yield %s : f32
  } : tensor<64xf32>
  func.return %a : tensor<64xf32>
}

// Windows overlap: neighbouring lanes read neighbouring elements.
// CHECK-LABEL: func.func @window
// CHECK:         juju.nest array<i64: 9, 92> ["reduction", "parallel"]
// CHECK-SAME:    affine_map<(d0, d1) -> ((d0 + d1))>, affine_map<(d0, d1) -> (d1)>]
func.func @window(%x: tensor<100xf32>) -> tensor<92xf32> {
  %a = juju.nest array<i64: 92, 9> ["parallel", "reduction"] maps [affine_map<(d0, d1) -> (d0 + d1)>, affine_map<(d0, d1) -> (d0)>] ins(%x : tensor<100xf32>) {
  ^bb0(%p: f32):
    %s = juju.reduce "max" %p : f32 -> f32
    juju.yield %s : f32
  } : tensor<92xf32>
  func.return %a : tensor<92xf32>
}

// The index of a loop moves with it.
// CHECK-LABEL: func.func @index
// CHECK:         juju.nest array<i64: 40, 64> ["reduction", "parallel"]
// CHECK:           juju.index 0
// CHECK-NEXT:      juju.index 1
func.func @index() -> tensor<64xi32> {
  %a = juju.nest array<i64: 64, 40> ["parallel", "reduction"] maps [affine_map<(d0, d1) -> (d0)>] {
    %i = juju.index 1
    %j = juju.index 0
    %p = juju.mul %i, %j : index, index
    %q = juju.convert %p : index -> i32
    %s = juju.reduce "add" %q : i32 -> i32
    juju.yield %s : i32
  } : tensor<64xi32>
  func.return %a : tensor<64xi32>
}

// Rows of an array are contiguous: vectors run along them. Fewer rows than lanes stay rows, too.
// CHECK-LABEL: func.func @rows
// CHECK:         juju.nest array<i64: 64, 40> ["parallel", "reduction"]
// CHECK:         juju.nest array<i64: 16, 40> ["parallel", "reduction"]
func.func @rows(%x: tensor<64x40xf32>, %y: tensor<40xf32>) -> (tensor<64xf32>, tensor<16xf32>) {
  %a = juju.nest array<i64: 64, 40> ["parallel", "reduction"] maps [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>] ins(%x : tensor<64x40xf32>) {
  ^bb0(%p: f32):
    %s = juju.reduce "add" %p : f32 -> f32
    juju.yield %s : f32
  } : tensor<64xf32>
  %b = juju.nest array<i64: 16, 40> ["parallel", "reduction"] maps [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>] ins(%y : tensor<40xf32>) {
  ^bb0(%p: f32):
    %s = juju.reduce "add" %p : f32 -> f32
    juju.yield %s : f32
  } : tensor<16xf32>
  func.return %a, %b : tensor<64xf32>, tensor<16xf32>
}
