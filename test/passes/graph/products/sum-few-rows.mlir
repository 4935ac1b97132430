// RUN: stepwell-opt %s --stepwell-sum-few-rows=machine=x86-64-v4 | FileCheck %s

// CHECK-LABEL: func.func @one_row
// CHECK-SAME: (%[[X:.+]]: tensor<1x64xf32>, %[[Y:.+]]: tensor<100x64xf32>)
// CHECK: %[[ROW:.+]] = "stepwell.reshape"(%[[X]]) {shape = array<i64: 1, 64>}
// CHECK: %[[PRODUCTS:.+]] = "stepwell.mul"(%[[Y]], %[[ROW]]) {{.*}} -> tensor<100x64xf32>
// CHECK: %[[SUMS:.+]] = "stepwell.reduce_sum"(%[[PRODUCTS]]) {axes = array<i64: 1>, keepdims = false} {{.*}} -> tensor<100xf32>
// CHECK: "stepwell.reshape"(%[[SUMS]]) {shape = array<i64: 1, 100>}
func.func @one_row(%x: tensor<1x64xf32>, %y: tensor<100x64xf32>) -> tensor<1x100xf32> {
  %0 = "stepwell.matmul"(%x, %y) {transpose_rhs = true} : (tensor<1x64xf32>, tensor<100x64xf32>) -> tensor<1x100xf32>
  return %0 : tensor<1x100xf32>
}

// Rows of all batches of the left operand share a matrix.
// CHECK-LABEL: func.func @rows_of_batches
// CHECK: "stepwell.reshape"(%arg0) {shape = array<i64: 1, 6, 512>}
// CHECK: "stepwell.reshape"(%arg1) {shape = array<i64: 100, 1, 512>}
// CHECK: "stepwell.mul"{{.*}} -> tensor<100x6x512xf32>
// CHECK: "stepwell.reduce_sum"{{.*}} -> tensor<100x6xf32>
// CHECK: "stepwell.transpose"{{.*}} -> tensor<6x100xf32>
// CHECK: "stepwell.reshape"{{.*}} -> tensor<2x3x100xf32>
func.func @rows_of_batches(%x: tensor<2x3x512xf32>, %y: tensor<100x512xf32>) -> tensor<2x3x100xf32> {
  %0 = "stepwell.matmul"(%x, %y) {transpose_rhs = true} : (tensor<2x3x512xf32>, tensor<100x512xf32>) -> tensor<2x3x100xf32>
  return %0 : tensor<2x3x100xf32>
}

// CHECK-LABEL: func.func @batches
// CHECK: "stepwell.mul"{{.*}} -> tensor<2x100x3x512xf64>
// CHECK: "stepwell.reduce_sum"{{.*}} {axes = array<i64: 3>, keepdims = false} {{.*}} -> tensor<2x100x3xf64>
// CHECK: "stepwell.transpose"{{.*}} {permutation = array<i64: 0, 2, 1>}
func.func @batches(%x: tensor<2x3x512xf64>, %y: tensor<2x100x512xf64>) -> tensor<2x3x100xf64> {
  %0 = "stepwell.matmul"(%x, %y) {transpose_rhs = true} : (tensor<2x3x512xf64>, tensor<2x100x512xf64>) -> tensor<2x3x100xf64>
  return %0 : tensor<2x3x100xf64>
}

// CHECK-LABEL: func.func @negative_many_rows
// CHECK-NOT: stepwell.reduce_sum
func.func @negative_many_rows(%x: tensor<200x40xf32>, %y: tensor<100x40xf32>) -> tensor<200x100xf32> {
  %0 = "stepwell.matmul"(%x, %y) {transpose_rhs = true} : (tensor<200x40xf32>, tensor<100x40xf32>) -> tensor<200x100xf32>
  return %0 : tensor<200x100xf32>
}

// The rows would be read from the second-level cache for each column.
// CHECK-LABEL: func.func @negative_long_rows
// CHECK-NOT: stepwell.reduce_sum
func.func @negative_long_rows(%x: tensor<16x4096xf32>, %y: tensor<100x4096xf32>) -> tensor<16x100xf32> {
  %0 = "stepwell.matmul"(%x, %y) {transpose_rhs = true} : (tensor<16x4096xf32>, tensor<100x4096xf32>) -> tensor<16x100xf32>
  return %0 : tensor<16x100xf32>
}

// A parameter is packed once.
// CHECK-LABEL: func.func @negative_parameter
// CHECK-NOT: stepwell.reduce_sum
func.func @negative_parameter(%x: tensor<1x64xf32>) -> tensor<1x100xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 100, 64>, dtype = f32} : () -> tensor<100x64xf32>
  %0 = "stepwell.matmul"(%x, %w) {transpose_rhs = true} : (tensor<1x64xf32>, tensor<100x64xf32>) -> tensor<1x100xf32>
  return %0 : tensor<1x100xf32>
}

// CHECK-LABEL: func.func @negative_columns_adjacent
// CHECK-NOT: stepwell.reduce_sum
func.func @negative_columns_adjacent(%x: tensor<1x64xf32>, %y: tensor<64x100xf32>) -> tensor<1x100xf32> {
  %0 = "stepwell.matmul"(%x, %y) : (tensor<1x64xf32>, tensor<64x100xf32>) -> tensor<1x100xf32>
  return %0 : tensor<1x100xf32>
}

// A matrix per batch on one side only.
// CHECK-LABEL: func.func @negative_broadcast
// CHECK-NOT: stepwell.reduce_sum
func.func @negative_broadcast(%x: tensor<1x1x64xf32>, %y: tensor<3x100x64xf32>) -> tensor<3x1x100xf32> {
  %0 = "stepwell.matmul"(%x, %y) {transpose_rhs = true} : (tensor<1x1x64xf32>, tensor<3x100x64xf32>) -> tensor<3x1x100xf32>
  return %0 : tensor<3x1x100xf32>
}

// Products of short floats are summed in float32, which `stepwell.mul` would not do.
// CHECK-LABEL: func.func @negative_halves
// CHECK-NOT: stepwell.reduce_sum
func.func @negative_halves(%x: tensor<1x64xf16>, %y: tensor<100x64xf16>) -> tensor<1x100xf16> {
  %0 = "stepwell.matmul"(%x, %y) {transpose_rhs = true} : (tensor<1x64xf16>, tensor<100x64xf16>) -> tensor<1x100xf16>
  return %0 : tensor<1x100xf16>
}
