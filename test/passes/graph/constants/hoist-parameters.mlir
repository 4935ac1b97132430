// RUN: stepwell-opt %s --split-input-file --stepwell-hoist-parameters | FileCheck %s

// CHECK: func.func @init(%[[W:.+]]: tensor<4xf32> {stepwell.name = "w"}) -> (tensor<4xf32> {stepwell.name = "w.exp"})
// CHECK-NEXT: %[[EXP:.+]] = "stepwell.exp"(%[[W]])
// CHECK-NEXT: return %[[EXP]]
// CHECK: func.func @main(%[[X:.+]]: tensor<4xf32>)
// CHECK-NEXT: %[[READ:.+]] = "stepwell.parameter"() {dtype = f32, name = "w.exp", shape = array<i64: 4>}
// CHECK-NEXT: "stepwell.add"(%[[X]], %[[READ]])
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4>, dtype = f32} : () -> tensor<4xf32>
  %dead = "stepwell.parameter"() {name = "dead", shape = array<i64: 4>, dtype = f32} : () -> tensor<4xf32>
  %0 = "stepwell.exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "stepwell.add"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// Large constants become parameters, splats too; small ones stay.

// CHECK: func.func @init() -> (tensor<2048xf32> {stepwell.name = "constant.constant"})
// CHECK: func.func @main
// CHECK: "stepwell.constant"() {value = dense<2.000000e+00> : tensor<f32>}
func.func @main(%x: tensor<2048xf32>) -> tensor<2048xf32> {
  %large = "stepwell.constant"() {value = dense<1.0> : tensor<2048xf32>} : () -> tensor<2048xf32>
  %small = "stepwell.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.mul"(%x, %large) : (tensor<2048xf32>, tensor<2048xf32>) -> tensor<2048xf32>
  %1 = "stepwell.mul"(%0, %small) : (tensor<2048xf32>, tensor<f32>) -> tensor<2048xf32>
  return %1 : tensor<2048xf32>
}

// -----

// A parameter by itself needs no computation.

// CHECK-NOT: func.func @init
// CHECK: func.func @main
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: name = "w", shape
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4>, dtype = f32} : () -> tensor<4xf32>
  %0 = "stepwell.add"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A value much larger than its operands is not stored.

// CHECK-NOT: func.func @init
// CHECK: stepwell.broadcast_to
func.func @main(%x: tensor<1000x1000xf32>) -> tensor<1000x1000xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 1000>, dtype = f32} : () -> tensor<1000xf32>
  %0 = "stepwell.broadcast_to"(%w) {shape = array<i64: 1000, 1000>} : (tensor<1000xf32>) -> tensor<1000x1000xf32>
  %1 = "stepwell.matmul"(%x, %0) : (tensor<1000x1000xf32>, tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  return %1 : tensor<1000x1000xf32>
}

// -----

// Ranges are an exception, because no kernel computes them.

// CHECK: func.func @init() -> (tensor<100000xi64> {{.*}})
// CHECK: "stepwell.range"
// CHECK: func.func @main
// CHECK-NOT: stepwell.range
func.func @main(%x: tensor<100000xi64>) -> tensor<100000xi64> {
  %zero = "stepwell.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
  %one = "stepwell.constant"() {value = dense<1> : tensor<i64>} : () -> tensor<i64>
  %end = "stepwell.constant"() {value = dense<100000> : tensor<i64>} : () -> tensor<i64>
  %range = "stepwell.range"(%zero, %end, %one) : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<100000xi64>
  %0 = "stepwell.add"(%x, %range) : (tensor<100000xi64>, tensor<100000xi64>) -> tensor<100000xi64>
  return %0 : tensor<100000xi64>
}

// -----

// A file may request any length: larger values than this are not computed at compile time.

// CHECK-NOT: func.func @init
// CHECK: func.func @main
// CHECK: stepwell.range
func.func @main(%x: tensor<20000000xi64>) -> tensor<20000000xi64> {
  %zero = "stepwell.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
  %one = "stepwell.constant"() {value = dense<1> : tensor<i64>} : () -> tensor<i64>
  %end = "stepwell.constant"() {value = dense<20000000> : tensor<i64>} : () -> tensor<i64>
  %range = "stepwell.range"(%zero, %end, %one) : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<20000000xi64>
  %0 = "stepwell.add"(%x, %range) : (tensor<20000000xi64>, tensor<20000000xi64>) -> tensor<20000000xi64>
  return %0 : tensor<20000000xi64>
}

// -----

// A result of the model may depend on no input.

// CHECK: func.func @init
// CHECK: func.func @main
// CHECK-NEXT: stepwell.parameter{{.*}}name = "w.exp"
// CHECK-NEXT: return
func.func @main() -> tensor<4xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4>, dtype = f32} : () -> tensor<4xf32>
  %0 = "stepwell.exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A few small results may grow by any factor.

// CHECK: func.func @init
// CHECK: stepwell.broadcast_to
// CHECK: func.func @main
// CHECK-NOT: stepwell.broadcast_to
func.func @main(%x: tensor<100x100xf32>) -> tensor<100x100xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 100>, dtype = f32} : () -> tensor<100xf32>
  %0 = "stepwell.broadcast_to"(%w) {shape = array<i64: 100, 100>} : (tensor<100xf32>) -> tensor<100x100xf32>
  %1 = "stepwell.matmul"(%x, %0) : (tensor<100x100xf32>, tensor<100x100xf32>) -> tensor<100x100xf32>
  return %1 : tensor<100x100xf32>
}

// -----

// A splat that the model returns is filled when it runs.

// CHECK-NOT: func.func @init
// CHECK: func.func @main
// CHECK-NEXT: "stepwell.constant"() {value = dense<1.000000e+00> : tensor<2048xf32>}
func.func @main() -> tensor<2048xf32> {
  %0 = "stepwell.constant"() {value = dense<1.0> : tensor<2048xf32>} : () -> tensor<2048xf32>
  return %0 : tensor<2048xf32>
}

// -----

// A second run changes nothing: its parameters would have to be computed by the first @init.

// CHECK: func.func @init
// CHECK-NOT: func.func @init
// CHECK: func.func @main
// CHECK: stepwell.exp
func.func @init(%v: tensor<4xf32> {stepwell.name = "v"}) -> (tensor<4xf32> {stepwell.name = "w"}) {
  return %v : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4>, dtype = f32} : () -> tensor<4xf32>
  %0 = "stepwell.exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "stepwell.add"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// An op that reads an input stays, and so do those that read its result.

// CHECK-NOT: func.func @init
// CHECK: func.func @main
// CHECK: stepwell.mul
// CHECK-NEXT: stepwell.exp
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4>, dtype = f32} : () -> tensor<4xf32>
  %0 = "stepwell.mul"(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = "stepwell.exp"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
