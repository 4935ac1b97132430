// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-form-kernels)' --split-input-file | FileCheck %s

// Without the reduced dimension, the sums are broadcast over rows, not along them.
// CHECK-LABEL: func.func @main
// CHECK:         call @kernel_0
// CHECK:         call @kernel_1
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<64x64xf32>, %table: tensor<256xi64>) -> tensor<64x64xf32> {
    %0 = "stepwell.reduce_sum"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<64x64xf32>) -> tensor<64xf32>
    %1 = "stepwell.sub"(%x, %0) : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
    return %1 : tensor<64x64xf32>
  }
}

// -----

// A reduced dimension that is not the last one lies across rows.
// CHECK-LABEL: func.func @main
// CHECK:         call @kernel_0
// CHECK:         call @kernel_1
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<16x8x64xf32>, %table: tensor<256xi64>) -> tensor<16x8x64xf32> {
    %0 = "stepwell.reduce_sum"(%x) {axes = array<i64: 1>, keepdims = true} : (tensor<16x8x64xf32>) -> tensor<16x1x64xf32>
    %1 = "stepwell.sub"(%x, %0) : (tensor<16x8x64xf32>, tensor<16x1x64xf32>) -> tensor<16x8x64xf32>
    return %1 : tensor<16x8x64xf32>
  }
}

// -----

// If nothing is reduced, the result is fused with its reader as the results of other reductions are.
// CHECK-LABEL: func.func @main
// CHECK:         call @kernel_0
// CHECK-NOT:     call
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<8x64xf32>, %table: tensor<256xi64>) -> tensor<8x64xf32> {
    %0 = "stepwell.reduce_sum"(%x) {axes = array<i64>, keepdims = true} : (tensor<8x64xf32>) -> tensor<8x64xf32>
    %1 = "stepwell.sub"(%x, %0) : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    return %1 : tensor<8x64xf32>
  }
}

// -----

// Sums of 16-bit floats are kept in more bits than the rows.
// CHECK-LABEL: func.func @main
// CHECK:         call @kernel_0
// CHECK:         call @kernel_1
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<8x64xf16>, %table: tensor<256xi64>) -> tensor<8x64xf16> {
    %0 = "stepwell.reduce_sum"(%x) {axes = array<i64: 1>, keepdims = true} : (tensor<8x64xf16>) -> tensor<8x1xf16>
    %1 = "stepwell.sub"(%x, %0) : (tensor<8x64xf16>, tensor<8x1xf16>) -> tensor<8x64xf16>
    return %1 : tensor<8x64xf16>
  }
}

// -----

// Rows that exceed the cache are read from memory twice anyway.
// CHECK-LABEL: func.func @main
// CHECK:         call @kernel_0
// CHECK:         call @kernel_1
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<8x1000000xf32>, %table: tensor<256xi64>) -> tensor<8x1000000xf32> {
    %0 = "stepwell.reduce_sum"(%x) {axes = array<i64: 1>, keepdims = true} : (tensor<8x1000000xf32>) -> tensor<8x1xf32>
    %1 = "stepwell.sub"(%x, %0) : (tensor<8x1000000xf32>, tensor<8x1xf32>) -> tensor<8x1000000xf32>
    return %1 : tensor<8x1000000xf32>
  }
}

// -----

// So few rows leave threads idle.
// CHECK-LABEL: func.func @main
// CHECK:         call @kernel_0
// CHECK:         call @kernel_1
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<4x64xf32>, %table: tensor<256xi64>) -> tensor<4x64xf32> {
    %0 = "stepwell.reduce_sum"(%x) {axes = array<i64: 1>, keepdims = true} : (tensor<4x64xf32>) -> tensor<4x1xf32>
    %1 = "stepwell.sub"(%x, %0) : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
    return %1 : tensor<4x64xf32>
  }
}

// -----

// The result has other elements than the rows.
// CHECK-LABEL: func.func @main
// CHECK:         call @kernel_0
// CHECK:         call @kernel_1
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<8x64xf32>, %table: tensor<256xi64>) -> tensor<8x64xi1> {
    %0 = "stepwell.reduce_sum"(%x) {axes = array<i64: 1>, keepdims = true} : (tensor<8x64xf32>) -> tensor<8x1xf32>
    %1 = "stepwell.greater"(%x, %0) : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xi1>
    return %1 : tensor<8x64xi1>
  }
}

// -----

// An op is not repeated for a product, which would compute it once for each column.
// CHECK-LABEL: func.func @main
// CHECK:         "stepwell.sub"
// CHECK-NOT:     "stepwell.sub"
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<8x64xf32>, %m: tensor<8x1xf32>, %w: tensor<64x16xf32>, %table: tensor<256xi64>) -> (tensor<8x1xf32>, tensor<8x16xf32>) {
    %0 = "stepwell.sub"(%x, %m) : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
    %1 = "stepwell.reduce_sum"(%0) {axes = array<i64: 1>, keepdims = true} : (tensor<8x64xf32>) -> tensor<8x1xf32>
    %2 = "stepwell.matmul"(%0, %w) : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
    return %1, %2 : tensor<8x1xf32>, tensor<8x16xf32>
  }
}

// -----

// An op in the epilogue of a product is not repeated: the product's kernel stores its value.
// CHECK-LABEL: func.func @main
// CHECK:         %[[SUM:.+]] = call @kernel_0
// CHECK:         call @kernel_1(%[[SUM]]
// CHECK:         call @kernel_2(%[[SUM]]
// CHECK:         "stepwell.mul"
// CHECK-NOT:     "stepwell.mul"
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x64xf32>, %f: tensor<f32>, %table: tensor<256xi64>) -> (tensor<8x1xf32>, tensor<8x64xf32>) {
    %0 = "stepwell.matmul"(%x, %w) : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
    %1 = "stepwell.mul"(%0, %f) : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf32>
    %2 = "stepwell.reduce_sum"(%1) {axes = array<i64: 1>, keepdims = true} : (tensor<8x64xf32>) -> tensor<8x1xf32>
    %3 = "stepwell.exp"(%1) : (tensor<8x64xf32>) -> tensor<8x64xf32>
    return %2, %3 : tensor<8x1xf32>, tensor<8x64xf32>
  }
}

// -----

// An op that reads two large operands is not repeated.
// CHECK-LABEL: func.func @main
// CHECK:         "stepwell.add"
// CHECK-NOT:     "stepwell.add"
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<8x64xf32>, %y: tensor<8x64xf32>, %table: tensor<256xi64>) -> (tensor<8x1xf32>, tensor<8x64xf32>) {
    %0 = "stepwell.add"(%x, %y) : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    %1 = "stepwell.reduce_sum"(%0) {axes = array<i64: 1>, keepdims = true} : (tensor<8x64xf32>) -> tensor<8x1xf32>
    %2 = "stepwell.exp"(%0) : (tensor<8x64xf32>) -> tensor<8x64xf32>
    return %1, %2 : tensor<8x1xf32>, tensor<8x64xf32>
  }
}

// -----

// Neither is one whose other operand is not much smaller than its result.
// CHECK-LABEL: func.func @main
// CHECK:         "stepwell.sub"
// CHECK-NOT:     "stepwell.sub"
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<8x4xf32>, %m: tensor<8x1xf32>, %table: tensor<256xi64>) -> (tensor<8x1xf32>, tensor<8x4xf32>) {
    %0 = "stepwell.sub"(%x, %m) : (tensor<8x4xf32>, tensor<8x1xf32>) -> tensor<8x4xf32>
    %1 = "stepwell.reduce_sum"(%0) {axes = array<i64: 1>, keepdims = true} : (tensor<8x4xf32>) -> tensor<8x1xf32>
    %2 = "stepwell.exp"(%0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %1, %2 : tensor<8x1xf32>, tensor<8x4xf32>
  }
}
