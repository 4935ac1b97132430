// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-form-kernels)' --split-input-file | FileCheck %s

// If sizes vary, a norm of sums is one kernel; each reader subtracts the mean itself.
// CHECK-LABEL: func.func @main
// CHECK: call @kernel_0
// CHECK-NOT: call
// CHECK: func.func private @kernel_0{{.*}}class = "reduction"{{.*}}stepwell.skipped = array<i64: 0, 1, 0, 0, 1, 0>
// CHECK: %[[MEAN:.*]] = "stepwell.div"
// CHECK: %[[FIRST:.*]] = "stepwell.sub"(%arg0, %[[MEAN]])
// CHECK: %[[SECOND:.*]] = "stepwell.sub"(%arg0, %[[MEAN]])
// CHECK: "stepwell.reduce_sum"
// CHECK: %[[RESULT:.*]] = "stepwell.div"(%{{.*}}, %
// CHECK: return %[[RESULT]]
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<8x64xf32>, %mask: tensor<64xf32>, %count: tensor<f32>, %table: tensor<256xi64>)
      -> (tensor<8x64xf32> {stepwell.extents = array<i64: -1, 0>}) {
    %0 = "stepwell.mask"(%x, %mask) {otherwise = 0.0 : f64, extent = 0 : i64}
      : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
    %1 = "stepwell.reduce_sum"(%0) {axes = array<i64: 1>, keepdims = true} : (tensor<8x64xf32>) -> tensor<8x1xf32>
    %2 = "stepwell.div"(%1, %count) : (tensor<8x1xf32>, tensor<f32>) -> tensor<8x1xf32>
    %3 = "stepwell.sub"(%x, %2) : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
    %4 = "stepwell.mul"(%3, %3) : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    %5 = "stepwell.mask"(%4, %mask) {otherwise = 0.0 : f64, extent = 0 : i64}
      : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
    %6 = "stepwell.reduce_sum"(%5) {axes = array<i64: 1>, keepdims = true} : (tensor<8x64xf32>) -> tensor<8x1xf32>
    %7 = "stepwell.div"(%3, %6) : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
    return %7 : tensor<8x64xf32>
  }
}

// -----

// Columns are not rows: a reduction across them must read everything before its result can be used.
// CHECK-LABEL: func.func @main
// CHECK: call @kernel_0
// CHECK: call @kernel_1
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<8x64xf32>, %table: tensor<256xi64>) -> tensor<8x64xf32> {
    %0 = "stepwell.reduce_sum"(%x) {axes = array<i64: 0>, keepdims = true} : (tensor<8x64xf32>) -> tensor<1x64xf32>
    %1 = "stepwell.sub"(%x, %0) : (tensor<8x64xf32>, tensor<1x64xf32>) -> tensor<8x64xf32>
    return %1 : tensor<8x64xf32>
  }
}

// -----

// The reduced operand leaves the group too, so there would be two results.
// CHECK-LABEL: func.func @main
// CHECK: call @kernel_0
// CHECK: call @kernel_1
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<8x64xf32>, %table: tensor<256xi64>) -> (tensor<8x64xf32>, tensor<8x1xf32>) {
    %0 = "stepwell.reduce_sum"(%x) {axes = array<i64: 1>, keepdims = true} : (tensor<8x64xf32>) -> tensor<8x1xf32>
    %1 = "stepwell.sub"(%x, %0) : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
    return %1, %0 : tensor<8x64xf32>, tensor<8x1xf32>
  }
}

// -----

// For a single size, norms are separate ops, and the others are grouped as usual.
// CHECK-LABEL: func.func @main
// CHECK: call @kernel_0
// CHECK: call @kernel_1
func.func @main(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %0 = "stepwell.reduce_sum"(%x) {axes = array<i64: 1>, keepdims = true} : (tensor<8x64xf32>) -> tensor<8x1xf32>
  %1 = "stepwell.sub"(%x, %0) : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
  return %1 : tensor<8x64xf32>
}
