// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-form-kernels)' --split-input-file | FileCheck %s

// A mask on the operand of a reduction is fused into the reduction, which ends where the mask does, whatever ops come
// between the operand and the reduction.
// CHECK-LABEL: func.func @main
// CHECK: func.func private @{{.*}}class = "contraction"
// CHECK-NOT: stepwell.mask
// CHECK: return
// CHECK: func.func private @{{.*}}class = "reduction"{{.*}}stepwell.skipped = array<i64: 0, 0, 0>
// CHECK: %[[KEPT:.*]] = "stepwell.mask"(%arg0
// CHECK: "stepwell.reduce_sum"(%[[KEPT]])
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<8x16xf32>, %w: tensor<512xf32>, %mask: tensor<8x1xf32>, %table: tensor<256xi64>)
      -> tensor<1x32xf32> {
    %0 = "stepwell.packed_matmul"(%x, %w) {columns = 32 : i64, panel = 32 : i64, batch = 1 : i64}
      : (tensor<8x16xf32>, tensor<512xf32>) -> tensor<8x32xf32>
    %1 = "stepwell.mask"(%0, %mask) {otherwise = 0.0 : f64, extent = 0 : i64}
      : (tensor<8x32xf32>, tensor<8x1xf32>) -> tensor<8x32xf32>
    %2 = "stepwell.reduce_sum"(%1) {axes = array<i64: 0>, keepdims = true} : (tensor<8x32xf32>) -> tensor<1x32xf32>
    return %2 : tensor<1x32xf32>
  }
}

// -----

// CHECK-LABEL: func.func @main
// CHECK: func.func private @{{.*}}class = "reduction"{{.*}}stepwell.skipped = array<i64: 0, 0, 0>
// CHECK: %[[AROUND:.*]] = "stepwell.sub"
// CHECK: %[[SQUARES:.*]] = "stepwell.mul"(%[[AROUND]], %[[AROUND]])
// CHECK: %[[KEPT:.*]] = "stepwell.mask"(%[[SQUARES]]
// CHECK: "stepwell.reduce_sum"(%[[KEPT]])
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<8x32xf32>, %mean: tensor<1x32xf32>, %mask: tensor<8x1xf32>, %table: tensor<256xi64>)
      -> tensor<1x32xf32> {
    %0 = "stepwell.sub"(%x, %mean) : (tensor<8x32xf32>, tensor<1x32xf32>) -> tensor<8x32xf32>
    %1 = "stepwell.mul"(%0, %0) : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    %2 = "stepwell.mask"(%1, %mask) {otherwise = 0.0 : f64, extent = 0 : i64}
      : (tensor<8x32xf32>, tensor<8x1xf32>) -> tensor<8x32xf32>
    %3 = "stepwell.reduce_sum"(%2) {axes = array<i64: 0>, keepdims = true} : (tensor<8x32xf32>) -> tensor<1x32xf32>
    return %3 : tensor<1x32xf32>
  }
}

// -----

// If masks insert different numbers, only the last one is an end.
// CHECK-LABEL: func.func @main
// CHECK: stepwell.skipped = array<i64: 0, 1, 1>
module attributes {stepwell.table = ["\"n\"", "\"m\""]} {
  func.func @main(%x: tensor<8x16xf32>, %rows: tensor<8x1xf32>, %cols: tensor<1x16xf32>, %table: tensor<256xi64>)
      -> tensor<1x1xf32> {
    %0 = "stepwell.mask"(%x, %rows) {otherwise = 0.0 : f64, extent = 0 : i64}
      : (tensor<8x16xf32>, tensor<8x1xf32>) -> tensor<8x16xf32>
    %1 = "stepwell.mask"(%0, %cols) {otherwise = -1.0 : f64, extent = 1 : i64}
      : (tensor<8x16xf32>, tensor<1x16xf32>) -> tensor<8x16xf32>
    %2 = "stepwell.reduce_max"(%1) {axes = array<i64: 0, 1>, keepdims = true}
      : (tensor<8x16xf32>) -> tensor<1x1xf32>
    return %2 : tensor<1x1xf32>
  }
}
