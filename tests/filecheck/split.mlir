// RUN: juju-opt %s -p juju-split | filecheck %s

// A long sum runs in parts, as many as its extent asks for; what does not fill them evenly is a nest of its own.
// CHECK-LABEL: func.func @sum
// CHECK:         %[[PARTS:.*]] = juju.nest array<i64: 7, 14285> ["parallel", "reduction"]
// CHECK-SAME:    affine_map<(d0, d1) -> (((d0 * 14285) + d1))>, affine_map<(d0, d1) -> (d0)>]
// CHECK:         %[[REST:.*]] = juju.nest array<i64: 5> ["reduction"]
// CHECK-SAME:    affine_map<(d0) -> ((d0 + 99995))>, affine_map<(d0) -> ()>]
// CHECK:         juju.nest array<i64: 7> ["reduction"]
// CHECK-SAME:    ins(%[[PARTS]], %[[REST]] : tensor<7xf32>, tensor<f32>)
// CHECK:           %[[TOTAL:.*]] = juju.reduce "add"
// CHECK-NEXT:      juju.add %[[TOTAL]]
// CHECK:         waits = ["{{.*}}compute in 7 parts, combined when all are done"]
func.func @sum(%x: tensor<100000xf32>) -> tensor<f32> {
  %a = juju.nest array<i64: 100000> ["reduction"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>] ins(%x : tensor<100000xf32>) {
  ^bb0(%p: f32):
    %q = juju.reduce "add" %p : f32 -> f32
    juju.yield %q : f32
  } : tensor<f32>
  func.return %a : tensor<f32>
}

// What follows the total is computed once, where the parts are combined.
// CHECK-LABEL: func.func @mean
// CHECK:         juju.nest array<i64: 4, 16384> ["parallel", "reduction"]
// CHECK-NOT:       juju.div
// CHECK:         juju.nest array<i64: 4> ["reduction"]
// CHECK:           juju.reduce "add"
// CHECK-NEXT:      juju.const
// CHECK-NEXT:      juju.div
func.func @mean(%x: tensor<65536xf32>) -> tensor<f32> {
  %a = juju.nest array<i64: 65536> ["reduction"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>] ins(%x : tensor<65536xf32>) {
  ^bb0(%p: f32):
    %q = juju.reduce "add" %p : f32 -> f32
    %n = juju.const 65536.0 : f32 -> f32
    %m = juju.div %q, %n : f32, f32
    juju.yield %m : f32
  } : tensor<f32>
  func.return %a : tensor<f32>
}

// Of the place of an extreme each part keeps the value and the place, counted from the beginning of the whole.
// CHECK-LABEL: func.func @place
// CHECK:         juju.nest array<i64: 4, 16384> ["parallel", "reduction"]
// CHECK:           juju.reduce "max"
// CHECK:           juju.reduce "argmax" %{{.*}} : f32 -> index
// CHECK:         juju.nest array<i64: 4> ["reduction"]
// CHECK:           %[[PART:.*]] = juju.reduce "argmax" %{{.*}} : f32 -> index
// CHECK-NEXT:      juju.read %{{.*}}{{\[}}%[[PART]]
func.func @place(%x: tensor<65536xf32>) -> tensor<i32> {
  %a = juju.nest array<i64: 65536> ["reduction"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>] ins(%x : tensor<65536xf32>) {
  ^bb0(%p: f32):
    %q = juju.reduce "argmax" %p : f32 -> i32
    juju.yield %q : i32
  } : tensor<i32>
  func.return %a : tensor<i32>
}

// Short rows, or many: every core has rows of its own.
// CHECK-LABEL: func.func @rows
// CHECK-COUNT-2: juju.nest
// CHECK-NOT:     juju.nest
func.func @rows(%x: tensor<20000xf32>, %y: tensor<16x40000xf32>) -> (tensor<f32>, tensor<16xf32>) {
  %a = juju.nest array<i64: 20000> ["reduction"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>] ins(%x : tensor<20000xf32>) {
  ^bb0(%p: f32):
    %q = juju.reduce "add" %p : f32 -> f32
    juju.yield %q : f32
  } : tensor<f32>
  %b = juju.nest array<i64: 16, 40000> ["parallel", "reduction"] maps [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>] ins(%y : tensor<16x40000xf32>) {
  ^bb0(%p: f32):
    %q = juju.reduce "add" %p : f32 -> f32
    juju.yield %q : f32
  } : tensor<16xf32>
  func.return %a, %b : tensor<f32>, tensor<16xf32>
}
