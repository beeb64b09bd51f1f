// RUN: juju-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: juju.exp takes kinds 'f', not i32
func.func @kind(%x: tensor<4xi32>) -> tensor<4xi32> {
  %a = juju.nest array<i64: 4> ["parallel"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>] ins(%x : tensor<4xi32>) {
  ^bb0(%p: i32):
    %q = juju.exp %p : i32
    juju.yield %q : i32
  } : tensor<4xi32>
  func.return %a : tensor<4xi32>
}

// -----

// CHECK: d0 runs from 0 to 4, axis 0 of operand 0 has 4
func.func @extent(%x: tensor<4xf32>) -> tensor<5xf32> {
  %a = juju.nest array<i64: 5> ["parallel"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>] ins(%x : tensor<4xf32>) {
  ^bb0(%p: f32):
    juju.yield %p : f32
  } : tensor<5xf32>
  func.return %a : tensor<5xf32>
}

// -----

// CHECK: result 0 changes along d0, where it is written once
func.func @not_uniform(%x: tensor<4xf32>) -> tensor<f32> {
  %a = juju.nest array<i64: 4> ["parallel"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>] ins(%x : tensor<4xf32>) {
  ^bb0(%p: f32):
    juju.yield %p : f32
  } : tensor<f32>
  func.return %a : tensor<f32>
}

// -----

// CHECK: juju.reshape cannot turn tensor<4xf32> into tensor<5xf32>
func.func @count(%x: tensor<4xf32>) -> tensor<5xf32> {
  %a = juju.reshape %x : tensor<4xf32> -> tensor<5xf32>
  func.return %a : tensor<5xf32>
}

// -----

// CHECK: juju.integer_pow takes parameters ('y',), 0 are given
func.func @params(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = juju.nest array<i64: 4> ["parallel"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>] ins(%x : tensor<4xf32>) {
  ^bb0(%p: f32):
    %q = juju.integer_pow %p : f32
    juju.yield %q : f32
  } : tensor<4xf32>
  func.return %a : tensor<4xf32>
}

// -----

// CHECK: result 0 changes along d1, where it is written once
func.func @not_reduced(%x: tensor<4x5xf32>) -> tensor<4xf32> {
  %a = juju.nest array<i64: 4, 5> ["parallel", "reduction"] maps [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>] ins(%x : tensor<4x5xf32>) {
  ^bb0(%p: f32):
    %q = juju.cumulate "add" %p : f32
    juju.yield %q : f32
  } : tensor<4xf32>
  func.return %a : tensor<4xf32>
}

// -----

// CHECK: juju.reduce by logaddexp of 1 operands
func.func @combiner(%x: tensor<4xf32>) -> tensor<f32> {
  %a = juju.nest array<i64: 4> ["reduction"] maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>] ins(%x : tensor<4xf32>) {
  ^bb0(%p: f32):
    %q = juju.reduce "logaddexp" %p : f32 -> f32
    juju.yield %q : f32
  } : tensor<f32>
  func.return %a : tensor<f32>
}

// -----

// CHECK: juju.read of tensor<4x5xf32> with 1 indices
func.func @indices(%x: tensor<4x5xf32>) -> tensor<4xf32> {
  %a = juju.nest array<i64: 4> ["parallel"] maps [affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>] ins(%x : tensor<4x5xf32>) {
  ^bb0(%p: tensor<4x5xf32>):
    %i = juju.index 0
    %q = juju.read %p[%i] : tensor<4x5xf32> -> f32
    juju.yield %q : f32
  } : tensor<4xf32>
  func.return %a : tensor<4xf32>
}

// -----

// CHECK: ((d0 * -1) + 4) runs from 1 to 4, axis 0 of operand 0 has 4
func.func @reversed(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = juju.nest array<i64: 4> ["parallel"] maps [affine_map<(d0) -> (4 + d0 * -1)>, affine_map<(d0) -> (d0)>] ins(%x : tensor<4xf32>) {
  ^bb0(%p: f32):
    juju.yield %p : f32
  } : tensor<4xf32>
  func.return %a : tensor<4xf32>
}
