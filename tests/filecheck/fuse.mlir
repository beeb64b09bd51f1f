// RUN: juju-opt %s -p juju-flatten,juju-fuse,cse,dce | filecheck %s

// Two elementwise nests over one space become one; the value between them stays in a register.
// CHECK-LABEL: func.func @chain
// CHECK:         juju.nest array<i64: 6>
// CHECK:           juju.mul
// CHECK-NEXT:      juju.exp
// CHECK-NOT:     juju.nest
func.func @chain(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %a = juju.nest array<i64: 2, 3> ["parallel", "parallel"] maps [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>] ins(%x : tensor<2x3xf32>) {
  ^bb0(%p: f32):
    %q = juju.mul %p, %p : f32, f32
    juju.yield %q : f32
  } : tensor<2x3xf32>
  %b = juju.nest array<i64: 2, 3> ["parallel", "parallel"] maps [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>] ins(%a : tensor<2x3xf32>) {
  ^bb0(%p: f32):
    %q = juju.exp %p : f32
    juju.yield %q : f32
  } : tensor<2x3xf32>
  func.return %b : tensor<2x3xf32>
}

// A rank-0 nest is computed where it is read, and written once if somebody wants it.
// CHECK-LABEL: func.func @scalar
// CHECK:         juju.nest array<i64: 4>
// CHECK-SAME:    affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>]
// CHECK:           juju.neg
// CHECK-NEXT:      juju.add
// CHECK-NEXT:      juju.yield
// CHECK-NOT:     juju.nest
func.func @scalar(%x: tensor<4xf32>, %s: tensor<f32>) -> (tensor<4xf32>, tensor<f32>) {
  %n = juju.nest array<i64> [] maps [affine_map<() -> ()>, affine_map<() -> ()>] ins(%s : tensor<f32>) {
  ^bb0(%p: f32):
    %q = juju.neg %p : f32
    juju.yield %q : f32
  } : tensor<f32>
  %b = juju.nest array<i64: 4> ["parallel"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>] ins(%x, %n : tensor<4xf32>, tensor<f32>) {
  ^bb0(%p: f32, %r: f32):
    %q = juju.add %p, %r : f32, f32
    juju.yield %q : f32
  } : tensor<4xf32>
  func.return %b, %n : tensor<4xf32>, tensor<f32>
}

// Different spaces stay two nests.
// CHECK-LABEL: func.func @two_spaces
// CHECK:         juju.nest array<i64: 4>
// CHECK:         juju.nest array<i64: 8>
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

// A custom call between two nests is a border: what it reads is written before, what reads it comes after.
// CHECK-LABEL: func.func @border
// CHECK:         juju.nest
// CHECK:           juju.neg
// CHECK:         juju.custom "opaque"
// CHECK:         juju.nest
// CHECK:           juju.exp
func.func @border(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = juju.nest array<i64: 4> ["parallel"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>] ins(%x : tensor<4xf32>) {
  ^bb0(%p: f32):
    %q = juju.neg %p : f32
    juju.yield %q : f32
  } : tensor<4xf32>
  %c = juju.custom "opaque" 0 ins(%a : tensor<4xf32>) : tensor<4xf32>
  %b = juju.nest array<i64: 4> ["parallel"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>] ins(%c : tensor<4xf32>) {
  ^bb0(%p: f32):
    %q = juju.exp %p : f32
    juju.yield %q : f32
  } : tensor<4xf32>
  func.return %b : tensor<4xf32>
}

// A row program: the quotient reads the sum of its own row, and stands in the nest that sums. Two passes over each row.
// CHECK-LABEL: func.func @row_program
// CHECK:         juju.nest array<i64: 64, 100> ["parallel", "reduction"]
// CHECK:           %[[SUM:.*]] = juju.reduce "add" %[[X:.*]] : f32 -> f32
// CHECK-NEXT:      juju.div %[[X]], %[[SUM]]
// CHECK-NOT:     juju.nest
func.func @row_program(%x: tensor<64x100xf32>) -> tensor<64x100xf32> {
  %s = juju.nest array<i64: 64, 100> ["parallel", "reduction"] maps [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>] ins(%x : tensor<64x100xf32>) {
  ^bb0(%p: f32):
    %q = juju.reduce "add" %p : f32 -> f32
    juju.yield %q : f32
  } : tensor<64xf32>
  %a = juju.nest array<i64: 64, 100> ["parallel", "parallel"] maps [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>] ins(%x, %s : tensor<64x100xf32>, tensor<64xf32>) {
  ^bb0(%p: f32, %q: f32):
    %r = juju.div %p, %q : f32, f32
    juju.yield %r : f32
  } : tensor<64x100xf32>
  func.return %a : tensor<64x100xf32>
}

// What is read at other points is pulled there if that is cheap: the operand is read transposed, nothing is written.
// CHECK-LABEL: func.func @pulled
// CHECK:         juju.nest array<i64: 5, 7>
// CHECK-SAME:    affine_map<(d0, d1) -> (d1, d0)>
// CHECK:           juju.neg
// CHECK-NEXT:      juju.abs
// CHECK-NOT:     juju.nest
func.func @pulled(%x: tensor<7x5xf32>) -> tensor<5x7xf32> {
  %n = juju.nest array<i64: 7, 5> ["parallel", "parallel"] maps [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>] ins(%x : tensor<7x5xf32>) {
  ^bb0(%p: f32):
    %q = juju.neg %p : f32
    juju.yield %q : f32
  } : tensor<7x5xf32>
  %a = juju.nest array<i64: 5, 7> ["parallel", "parallel"] maps [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>] ins(%n : tensor<7x5xf32>) {
  ^bb0(%p: f32):
    %q = juju.abs %p : f32
    juju.yield %q : f32
  } : tensor<5x7xf32>
  func.return %a : tensor<5x7xf32>
}

// A dear value that is read at two other points waits in memory, and the nest says why.
// CHECK-LABEL: func.func @waits
// CHECK:         juju.nest array<i64: 64>
// CHECK:           juju.sin
// CHECK:         juju.nest array<i64: 62>
// CHECK-NOT:       juju.sin
// CHECK:         waits = ["{{.*}}read at other points, and computing it again would cost {{.*}}"]
func.func @waits(%x: tensor<64xf32>) -> tensor<62xf32> {
  %n = juju.nest array<i64: 64> ["parallel"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>] ins(%x : tensor<64xf32>) {
  ^bb0(%p: f32):
    %q = juju.sin %p : f32
    juju.yield %q : f32
  } : tensor<64xf32>
  %a = juju.nest array<i64: 62> ["parallel"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0 + 2)>, affine_map<(d0) -> (d0)>] ins(%n, %n : tensor<64xf32>, tensor<64xf32>) {
  ^bb0(%p: f32, %r: f32):
    %q = juju.sub %p, %r : f32, f32
    juju.yield %q : f32
  } : tensor<62xf32>
  func.return %a : tensor<62xf32>
}

// The total of few long rows is made in parts later, so what reads it waits.
// CHECK-LABEL: func.func @few_rows
// CHECK:         %[[SUM:.*]] = juju.nest array<i64: 2, 40000> ["parallel", "reduction"]
// CHECK:         juju.nest
// CHECK-SAME:    %[[SUM]]
// CHECK:           juju.div
func.func @few_rows(%x: tensor<2x40000xf32>) -> tensor<2x40000xf32> {
  %s = juju.nest array<i64: 2, 40000> ["parallel", "reduction"] maps [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>] ins(%x : tensor<2x40000xf32>) {
  ^bb0(%p: f32):
    %q = juju.reduce "add" %p : f32 -> f32
    juju.yield %q : f32
  } : tensor<2xf32>
  %a = juju.nest array<i64: 2, 40000> ["parallel", "parallel"] maps [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>] ins(%x, %s : tensor<2x40000xf32>, tensor<2xf32>) {
  ^bb0(%p: f32, %q: f32):
    %r = juju.div %p, %q : f32, f32
    juju.yield %r : f32
  } : tensor<2x40000xf32>
  func.return %a : tensor<2x40000xf32>
}
