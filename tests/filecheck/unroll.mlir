// RUN: juju-opt %s -p juju-unroll | filecheck %s

// The sum of three parts is two additions, and one of the 0 that JAX begins with, which makes no sum -0; the loop along
// them is gone, and each part is read at its own place.
// CHECK-LABEL: func.func @sum
// CHECK:         juju.nest array<i64: 64> ["parallel"]
// CHECK-SAME:    affine_map<(d0) -> (d0, 0)>, affine_map<(d0) -> (d0, 1)>, affine_map<(d0) -> (d0, 2)>
// CHECK:           %[[TWO:.*]] = juju.add
// CHECK-NEXT:      %[[THREE:.*]] = juju.add %[[TWO]]
// CHECK-NEXT:      %[[ZERO:.*]] = juju.const 0.000000e+00
// CHECK-NEXT:      juju.add %[[THREE]], %[[ZERO]]
// CHECK-NOT:       juju.reduce
func.func @sum(%x: tensor<64x3xf32>) -> tensor<64xf32> {
  %a = juju.nest array<i64: 64, 3> ["parallel", "reduction"] maps [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>] ins(%x : tensor<64x3xf32>) {
  ^bb0(%p: f32):
    %q = juju.reduce "add" %p : f32 -> f32
    juju.yield %q : f32
  } : tensor<64xf32>
  func.return %a : tensor<64xf32>
}

// A 16-bit sum is added up in float32 and rounded once.
// CHECK-LABEL: func.func @half
// CHECK:           juju.convert %{{.*}} : bf16 -> f32
// CHECK-NOT:       juju.add %{{.*}} : bf16, bf16
// CHECK:           juju.convert %{{.*}} : f32 -> bf16
// CHECK-NEXT:      juju.yield
func.func @half(%x: tensor<64x2xbf16>) -> tensor<64xbf16> {
  %a = juju.nest array<i64: 64, 2> ["parallel", "reduction"] maps [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>] ins(%x : tensor<64x2xbf16>) {
  ^bb0(%p: bf16):
    %q = juju.reduce "add" %p : bf16 -> bf16
    juju.yield %q : bf16
  } : tensor<64xbf16>
  func.return %a : tensor<64xbf16>
}

// The place of the greatest: later elements win only if they are greater, or the first NaN.
// CHECK-LABEL: func.func @place
// CHECK:           juju.gt
// CHECK:           juju.select
// CHECK-NOT:       juju.reduce
func.func @place(%x: tensor<64x2xf32>) -> tensor<64xi32> {
  %a = juju.nest array<i64: 64, 2> ["parallel", "reduction"] maps [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>] ins(%x : tensor<64x2xf32>) {
  ^bb0(%p: f32):
    %q = juju.reduce "argmax" %p : f32 -> i32
    juju.yield %q : i32
  } : tensor<64xi32>
  func.return %a : tensor<64xi32>
}

// Longer rows keep their loop, and so do short ones that are not the innermost: lanes run along the loop inside.
// CHECK-LABEL: func.func @loops
// CHECK:         juju.nest array<i64: 64, 9> ["parallel", "reduction"]
// CHECK:         juju.nest array<i64: 3, 64> ["reduction", "parallel"]
func.func @loops(%x: tensor<64x9xf32>, %y: tensor<3x64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %a = juju.nest array<i64: 64, 9> ["parallel", "reduction"] maps [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>] ins(%x : tensor<64x9xf32>) {
  ^bb0(%p: f32):
    %q = juju.reduce "add" %p : f32 -> f32
    juju.yield %q : f32
  } : tensor<64xf32>
  %b = juju.nest array<i64: 3, 64> ["reduction", "parallel"] maps [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>] ins(%y : tensor<3x64xf32>) {
  ^bb0(%p: f32):
    %q = juju.reduce "add" %p : f32 -> f32
    juju.yield %q : f32
  } : tensor<64xf32>
  func.return %a, %b : tensor<64xf32>, tensor<64xf32>
}
