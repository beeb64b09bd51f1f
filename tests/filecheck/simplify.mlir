// RUN: juju-opt %s -p juju-simplify | filecheck %s

// Constants are folded, in the very dtype, unless the result is subnormal or a function is transcendental.
// CHECK-LABEL: func.func @constants
// CHECK:         juju.const 1.000000e+00 : f32
// CHECK-NOT:     juju.add
// CHECK:         juju.exp
// CHECK:         juju.mul
// CHECK:         juju.yield
func.func @constants(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a, %b, %c = juju.nest array<i64: 4> ["parallel"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>] ins(%x : tensor<4xf32>) {
  ^bb0(%p: f32):
    %half = juju.const 0.5 : f32 -> f32
    %tiny = juju.const 1.0e-20 : f32 -> f32
    %one = juju.add %half, %half : f32, f32
    %e = juju.exp %half : f32
    %subnormal = juju.mul %tiny, %tiny : f32, f32
    %m = juju.sub %p, %one : f32, f32
    %s = juju.sub %p, %subnormal : f32, f32
    juju.yield %m, %e, %s : f32, f32, f32
  } : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  func.return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// x * 1, x / 1, x - 0, x + -0 and --x are x; x + 0 and x * 0 are not.
// CHECK-LABEL: func.func @identities
// CHECK:       ^{{.*}}(%[[P:.*]]: f32):
// CHECK-DAG:     %[[Z:.*]] = juju.const 0.000000e+00 : f32
// CHECK:         %[[M:.*]] = juju.mul %[[P]], %[[Z]]
// CHECK-NEXT:    %[[A:.*]] = juju.add %[[P]], %[[Z]]
// CHECK-NEXT:    juju.yield %[[P]], %[[M]], %[[A]]
func.func @identities(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a, %b, %c = juju.nest array<i64: 4> ["parallel"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>] ins(%x : tensor<4xf32>) {
  ^bb0(%p: f32):
    %zero = juju.const 0.0 : f32 -> f32
    %minus = juju.const -0.0 : f32 -> f32
    %one = juju.const 1.0 : f32 -> f32
    %q = juju.mul %p, %one : f32, f32
    %r = juju.div %q, %one : f32, f32
    %s = juju.sub %r, %zero : f32, f32
    %t = juju.add %minus, %s : f32, f32
    %u = juju.neg %t : f32
    %v = juju.neg %u : f32
    %w = juju.mul %p, %zero : f32, f32
    %y = juju.add %p, %zero : f32, f32
    juju.yield %v, %w, %y : f32, f32, f32
  } : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  func.return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Division by a power of two is multiplication, by 3 it is not; unsigned integers are shifted and masked.
// CHECK-LABEL: func.func @division
// CHECK:         juju.const 2.500000e-01 : f32
// CHECK-NEXT:    juju.mul
// CHECK:         juju.div
// CHECK:         juju.shift_right_logical
// CHECK:         juju.and
func.func @division(%x: tensor<4xf32>, %i: tensor<4xui32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xui32>, tensor<4xui32>) {
  %a, %b, %c, %d = juju.nest array<i64: 4> ["parallel"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>] ins(%x, %i : tensor<4xf32>, tensor<4xui32>) {
  ^bb0(%p: f32, %n: ui32):
    %four = juju.const 4.0 : f32 -> f32
    %three = juju.const 3.0 : f32 -> f32
    %eight = juju.const 8 : ui32 -> ui32
    %q = juju.div %p, %four : f32, f32
    %r = juju.div %p, %three : f32, f32
    %s = juju.div %n, %eight : ui32, ui32
    %t = juju.rem %n, %eight : ui32, ui32
    juju.yield %q, %r, %s, %t : f32, f32, ui32, ui32
  } : tensor<4xf32>, tensor<4xf32>, tensor<4xui32>, tensor<4xui32>
  func.return %a, %b, %c, %d : tensor<4xf32>, tensor<4xf32>, tensor<4xui32>, tensor<4xui32>
}

// Equal operations are one, also with operands the other way round; an operand that nobody reads any more goes.
// CHECK-LABEL: func.func @equal
// CHECK:         ins(%{{[^,]*}} : tensor<4xf32>)
// CHECK:         %[[S:.*]] = juju.mul
// CHECK-NEXT:    %[[T:.*]] = juju.add %[[S]], %[[S]]
// CHECK-NEXT:    juju.yield %[[T]]
func.func @equal(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = juju.nest array<i64: 4> ["parallel"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>] ins(%x, %y : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%p: f32, %q: f32):
    %yes = juju.const 1 : i1 -> i1
    %three = juju.const 3.0 : f32 -> f32
    %s = juju.mul %p, %three : f32, f32
    %t = juju.mul %three, %p : f32, f32
    %u = juju.select %yes, %q, %t : i1, f32, f32 -> f32
    %v = juju.add %s, %u : f32, f32
    juju.yield %v : f32
  } : tensor<4xf32>
  func.return %a : tensor<4xf32>
}

// The sine and cosine of one angle share their work, whatever sign the cosine's has.
// CHECK-LABEL: func.func @sincos
// CHECK:         %[[S:.*]], %[[C:.*]] = juju.sincos
// CHECK-NEXT:    juju.add %[[S]], %[[C]]
func.func @sincos(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = juju.nest array<i64: 4> ["parallel"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>] ins(%x : tensor<4xf32>) {
  ^bb0(%p: f32):
    %n = juju.neg %p : f32
    %s = juju.sin %p : f32
    %c = juju.cos %n : f32
    %t = juju.add %s, %c : f32, f32
    juju.yield %t : f32
  } : tensor<4xf32>
  func.return %a : tensor<4xf32>
}

// So do the error functions and the bell curve of one value.
// CHECK-LABEL: func.func @errors
// CHECK:       ^{{.*}}(%[[P:.*]]: f32):
// CHECK:         %[[E:.*]], %[[T:.*]], %[[B:.*]] = juju.error_functions %[[P]]
// CHECK-NEXT:    juju.yield %[[E]], %[[T]], %[[B]]
func.func @errors(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a, %b, %c = juju.nest array<i64: 4> ["parallel"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>] ins(%x : tensor<4xf32>) {
  ^bb0(%p: f32):
    %m = juju.abs %p : f32
    %e = juju.erf %p : f32
    %t = juju.erfc %m : f32
    %q = juju.mul %m, %m : f32, f32
    %n = juju.neg %q : f32
    %g = juju.exp %n : f32
    juju.yield %e, %t, %g : f32, f32, f32
  } : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  func.return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// A conversion of an exact conversion is one; integers that go through a float keep its saturation.
// CHECK-LABEL: func.func @conversions
// CHECK:       ^{{.*}}(%[[P:.*]]: f32, %[[N:.*]]: i32):
// CHECK-NEXT:    %[[F:.*]] = juju.convert %[[N]] : i32 -> f64
// CHECK-NEXT:    %[[I:.*]] = juju.convert %[[F]] : f64 -> i8
// CHECK-NEXT:    juju.yield %[[P]], %[[N]], %[[I]]
func.func @conversions(%x: tensor<4xf32>, %i: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>, tensor<4xi8>) {
  %a, %b, %c = juju.nest array<i64: 4> ["parallel"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>] ins(%x, %i : tensor<4xf32>, tensor<4xi32>) {
  ^bb0(%p: f32, %n: i32):
    %w = juju.convert %p : f32 -> f64
    %q = juju.convert %w : f64 -> f32
    %f = juju.convert %n : i32 -> f64
    %m = juju.convert %f : f64 -> i32
    %s = juju.convert %f : f64 -> i8
    juju.yield %q, %m, %s : f32, i32, i8
  } : tensor<4xf32>, tensor<4xi32>, tensor<4xi8>
  func.return %a, %b, %c : tensor<4xf32>, tensor<4xi32>, tensor<4xi8>
}
