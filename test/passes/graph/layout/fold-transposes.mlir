// RUN: stepwell-opt %s --stepwell-fold-transposes | FileCheck %s

// CHECK-LABEL: func.func @rhs
// CHECK-SAME: (%[[Q:.+]]: tensor<2x3x4xf32>, %[[K:.+]]: tensor<2x5x4xf32>)
func.func @rhs(%q: tensor<2x3x4xf32>, %k: tensor<2x5x4xf32>) -> tensor<2x3x5xf32> {
  // CHECK-NEXT: "stepwell.matmul"(%[[Q]], %[[K]]) {transpose_lhs = false, transpose_rhs = true}
  %0 = "stepwell.transpose"(%k) {permutation = array<i64: 0, 2, 1>} : (tensor<2x5x4xf32>) -> tensor<2x4x5xf32>
  %1 = "stepwell.matmul"(%q, %0) : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  return %1 : tensor<2x3x5xf32>
}

// The heads move to the front, as contiguous rows.

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

// CHECK-LABEL: func.func @flatten
// CHECK-SAME: (%[[X:.+]]: tensor<2x3x4x5xf32>)
func.func @flatten(%x: tensor<2x3x4x5xf32>) -> tensor<2x7xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 60, 7>, dtype = f32} : () -> tensor<60x7xf32>
  // CHECK: %[[WIDE:.+]] = "stepwell.reshape"(%{{.+}}) {shape = array<i64: 5, 3, 4, 7>}
  // CHECK: %[[MOVED:.+]] = "stepwell.transpose"(%[[WIDE]]) {permutation = array<i64: 1, 2, 0, 3>}
  // CHECK: %[[W:.+]] = "stepwell.reshape"(%[[MOVED]])
  // CHECK: %[[ROWS:.+]] = "stepwell.reshape"(%[[X]])
  // CHECK: "stepwell.matmul"(%[[ROWS]], %[[W]])
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<2x3x4x5xf32>) -> tensor<2x5x3x4xf32>
  %1 = "stepwell.reshape"(%0) {shape = array<i64: 2, 60>} : (tensor<2x5x3x4xf32>) -> tensor<2x60xf32>
  %2 = "stepwell.matmul"(%1, %w) : (tensor<2x60xf32>, tensor<60x7xf32>) -> tensor<2x7xf32>
  return %2 : tensor<2x7xf32>
}
