// RUN: stepwell-opt %s --stepwell-decompose | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline="builtin.module(stepwell-decompose{max-steps=1})" | FileCheck %s --check-prefix=LONG

// The products with all inputs are computed at once, those with the state in each of the two steps.

// CHECK-LABEL: func.func @lstm
// LONG-LABEL: func.func @lstm
func.func @lstm(%x: tensor<2x1x3xf32>, %w: tensor<1x8x3xf32>, %r: tensor<1x8x2xf32>) -> tensor<2x1x1x2xf32> {
  // CHECK: "stepwell.matmul"({{.*}}) {transpose_rhs = true} : (tensor<2x3xf32>, tensor<8x3xf32>)
  // CHECK-COUNT-2: "stepwell.matmul"({{.*}}) {transpose_rhs = true} : (tensor<1x2xf32>, tensor<8x2xf32>)
  // CHECK-NOT: stepwell.lstm
  // CHECK: stepwell.concat
  // LONG-NEXT: stepwell.lstm
  %y, %h, %c = "stepwell.lstm"(%x, %w, %r) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>}
    : (tensor<2x1x3xf32>, tensor<1x8x3xf32>, tensor<1x8x2xf32>) -> (tensor<2x1x1x2xf32>, tensor<1x1x2xf32>, tensor<1x1x2xf32>)
  return %y : tensor<2x1x1x2xf32>
}

// The last input comes first.
// CHECK-LABEL: func.func @backwards
// CHECK: %[[INPUTS:.+]] = "stepwell.reshape"(%{{.+}}) {shape = array<i64: 2, 1, 8>}
// CHECK: "stepwell.slice"(%[[INPUTS]]) {starts = array<i64: 1, 0, 0>
// CHECK: "stepwell.slice"(%[[INPUTS]]) {starts = array<i64: 0, 0, 0>
// CHECK-NOT: stepwell.lstm
func.func @backwards(%x: tensor<2x1x3xf32>, %w: tensor<1x8x3xf32>, %r: tensor<1x8x2xf32>) -> tensor<2x1x1x2xf32> {
  %y, %h, %c = "stepwell.lstm"(%x, %w, %r) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, direction = "reverse"}
    : (tensor<2x1x3xf32>, tensor<1x8x3xf32>, tensor<1x8x2xf32>) -> (tensor<2x1x1x2xf32>, tensor<1x1x2xf32>, tensor<1x1x2xf32>)
  return %y : tensor<2x1x1x2xf32>
}

// Each direction has weights of its own, and the states are concatenated.
// CHECK-LABEL: func.func @both_directions
// CHECK: "stepwell.slice"(%{{.+}}) {starts = array<i64: 1, 0, 0>
// CHECK-NOT: stepwell.lstm
// CHECK: "stepwell.concat"(%{{.+}}, %{{.+}}) {axis = 1 : i64}
func.func @both_directions(%x: tensor<1x1x3xf32>, %w: tensor<2x8x3xf32>, %r: tensor<2x8x2xf32>) -> tensor<1x2x1x2xf32> {
  %y, %h, %c = "stepwell.lstm"(%x, %w, %r) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, direction = "bidirectional"}
    : (tensor<1x1x3xf32>, tensor<2x8x3xf32>, tensor<2x8x2xf32>) -> (tensor<1x2x1x2xf32>, tensor<2x1x2xf32>, tensor<2x1x2xf32>)
  return %y : tensor<1x2x1x2xf32>
}

// CHECK-LABEL: func.func @negative_unknown_steps
// CHECK-NEXT: stepwell.lstm
func.func @negative_unknown_steps(%x: tensor<?x1x3xf32>, %w: tensor<1x8x3xf32>, %r: tensor<1x8x2xf32>) -> tensor<?x1x1x2xf32> {
  %y, %h, %c = "stepwell.lstm"(%x, %w, %r) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>}
    : (tensor<?x1x3xf32>, tensor<1x8x3xf32>, tensor<1x8x2xf32>) -> (tensor<?x1x1x2xf32>, tensor<1x1x2xf32>, tensor<1x1x2xf32>)
  return %y : tensor<?x1x1x2xf32>
}

// There is no state to return.
// CHECK-LABEL: func.func @negative_no_steps
// CHECK-NEXT: stepwell.lstm
func.func @negative_no_steps(%x: tensor<0x1x3xf32>, %w: tensor<1x8x3xf32>, %r: tensor<1x8x2xf32>) -> tensor<0x1x1x2xf32> {
  %y, %h, %c = "stepwell.lstm"(%x, %w, %r) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>}
    : (tensor<0x1x3xf32>, tensor<1x8x3xf32>, tensor<1x8x2xf32>) -> (tensor<0x1x1x2xf32>, tensor<1x1x2xf32>, tensor<1x1x2xf32>)
  return %y : tensor<0x1x1x2xf32>
}
