// RUN: stepwell-opt %s --stepwell-fold-transposes | FileCheck %s

// CHECK-LABEL: func.func @rhs
// CHECK-SAME: (%[[Q:.+]]: tensor<2x3x4xf32>, %[[K:.+]]: tensor<2x5x4xf32>)
func.func @rhs(%q: tensor<2x3x4xf32>, %k: tensor<2x5x4xf32>) -> tensor<2x3x5xf32> {
  // CHECK-NEXT: "stepwell.matmul"(%[[Q]], %[[K]]) {transpose_lhs = false, transpose_rhs = true}
  %0 = "stepwell.transpose"(%k) {permutation = array<i64: 0, 2, 1>} : (tensor<2x5x4xf32>) -> tensor<2x4x5xf32>
  %1 = "stepwell.matmul"(%q, %0) : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  return %1 : tensor<2x3x5xf32>
}

// The heads move to the front, as rows that stay whole.

// CHECK-LABEL: func.func @heads
func.func @heads(%q: tensor<1x2x3x4xf32>, %k: tensor<1x5x2x4xf32>) -> tensor<1x2x3x5xf32> {
  // CHECK-NEXT: %[[HEADS:.+]] = "stepwell.transpose"(%{{.+}}) {permutation = array<i64: 0, 2, 1, 3>}
  // CHECK-NEXT: "stepwell.matmul"(%{{.+}}, %[[HEADS]]) {transpose_lhs = false, transpose_rhs = true}
  %0 = "stepwell.transpose"(%k) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x5x2x4xf32>) -> tensor<1x2x4x5xf32>
  %1 = "stepwell.matmul"(%q, %0) : (tensor<1x2x3x4xf32>, tensor<1x2x4x5xf32>) -> tensor<1x2x3x5xf32>
  return %1 : tensor<1x2x3x5xf32>
}

// CHECK-LABEL: func.func @negative_rows_stay_whole
func.func @negative_rows_stay_whole(%q: tensor<1x3x2x4xf32>, %k: tensor<1x2x4x5xf32>) -> tensor<1x2x3x5xf32> {
  // CHECK-NEXT: stepwell.transpose
  // CHECK-NEXT: "stepwell.matmul"(%{{.+}}, %{{.+}}) : (
  %0 = "stepwell.transpose"(%q) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x3x2x4xf32>) -> tensor<1x2x3x4xf32>
  %1 = "stepwell.matmul"(%0, %k) : (tensor<1x2x3x4xf32>, tensor<1x2x4x5xf32>) -> tensor<1x2x3x5xf32>
  return %1 : tensor<1x2x3x5xf32>
}
