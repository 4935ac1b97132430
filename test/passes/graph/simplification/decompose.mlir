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
