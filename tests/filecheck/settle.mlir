// RUN: juju-opt %s -p juju-settle,dce | filecheck %s

// A read at sums of loops and numbers becomes a map, and two of one place become one operand.
// CHECK-LABEL: func.func @sums
// CHECK:         maps [affine_map<(d0, d1) -> ((d0 + 2), d1)>, affine_map<(d0, d1) -> (d0, d1)>]
// CHECK-NOT:     juju.read
func.func @sums(%x: tensor<6x5xf32>) -> tensor<4x5xf32> {
  %a = juju.nest array<i64: 4, 5> ["parallel", "parallel"] maps [affine_map<(d0, d1) -> ()>, affine_map<(d0, d1) -> (d0, d1)>] ins(%x : tensor<6x5xf32>) {
  ^bb0(%t: tensor<6x5xf32>):
    %i = juju.index 0
    %j = juju.index 1
    %two = juju.extent 2
    %k = juju.add %i, %two : index, index
    %p = juju.read %t[%k, %j] : tensor<6x5xf32> -> f32
    %q = juju.read %t[%k, %j] : tensor<6x5xf32> -> f32
    %r = juju.mul %p, %q : f32, f32
    juju.yield %r : f32
  } : tensor<4x5xf32>
  func.return %a : tensor<4x5xf32>
}

// A mask, and an index that is data, stay reads.
// CHECK-LABEL: func.func @reads
// CHECK:         juju.read %{{.*}}[%{{.*}}] if %{{.*}}
// CHECK:         juju.read %{{.*}}[%{{.*}}] : tensor<6xf32>
func.func @reads(%x: tensor<6xf32>, %n: tensor<6xi32>) -> tensor<6xf32> {
  %a = juju.nest array<i64: 6> ["parallel"] maps [affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>] ins(%x, %n : tensor<6xf32>, tensor<6xi32>) {
  ^bb0(%t: tensor<6xf32>, %m: i32):
    %i = juju.index 0
    %one = juju.const 1 : index -> index
    %below = juju.ge %i, %one : index
    %before = juju.sub %i, %one : index, index
    %p = juju.read %t[%before] if %below : tensor<6xf32> -> f32
    %k = juju.convert %m : i32 -> index
    %q = juju.read %t[%k] : tensor<6xf32> -> f32
    %r = juju.add %p, %q : f32, f32
    juju.yield %r : f32
  } : tensor<6xf32>
  func.return %a : tensor<6xf32>
}
