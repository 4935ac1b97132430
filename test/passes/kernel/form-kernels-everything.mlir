// RUN: stepwell-opt %s --split-input-file --stepwell-form-kernels="stops-at-extents=false" | FileCheck %s
// RUN: stepwell-opt %s --split-input-file --stepwell-form-kernels | FileCheck %s --check-prefix=PARTLY

// Kernels that compute everything read masks, and neither extents nor the table of a call.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     stepwell.skipped
// CHECK-NOT:     stepwell.table_argument
// CHECK:         func.func private @kernel_0(%arg0: tensor<8x32xf32>, %arg1: tensor<8x1xf32>) ->
// CHECK-SAME:      stepwell.reads_padding
// CHECK-NOT:     stepwell.extents
// CHECK-NOT:     stepwell.table_argument

// PARTLY-LABEL: func.func @main
// PARTLY:         func.func private @kernel_0(%arg0: tensor<8x32xf32>, %arg1: tensor<8x1xf32>, %arg2: tensor<256xi64>)
// PARTLY-SAME:      stepwell.masks = array<i64: 1, 0>
// PARTLY-SAME:      stepwell.skipped = array<i64: 0, 0, 0>
// PARTLY:         func.func private @kernel_1({{.*}}stepwell.extents = array<i64: 0, -1>
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<8x32xf32>, %y: tensor<8x32xf32>, %mask: tensor<8x1xf32>, %table: tensor<256xi64>)
      -> (tensor<1x32xf32>, tensor<8x32xf32> {stepwell.extents = array<i64: 0, -1>}) {
    %0 = "stepwell.mask"(%x, %mask) {otherwise = 0.0 : f64, extent = 0 : i64}
      : (tensor<8x32xf32>, tensor<8x1xf32>) -> tensor<8x32xf32>
    %1 = "stepwell.reduce_sum"(%0) {axes = array<i64: 0>, keepdims = true} : (tensor<8x32xf32>) -> tensor<1x32xf32>
    %2 = "stepwell.exp"(%y) : (tensor<8x32xf32>) -> tensor<8x32xf32>
    return %1, %2 : tensor<1x32xf32>, tensor<8x32xf32>
  }
}

// -----

// Sums over the same rows, and the readers of these rows, have kernels of their own.
// CHECK-LABEL:  func.func @main
// CHECK:          call @kernel_0
// CHECK:          call @kernel_1
// PARTLY-LABEL: func.func @main
// PARTLY:         call @kernel_0
// PARTLY-NOT:     call @kernel_1
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<8x64xf32>, %table: tensor<256xi64>) -> tensor<8x64xf32> {
    %0 = "stepwell.reduce_sum"(%x) {axes = array<i64: 1>, keepdims = true} : (tensor<8x64xf32>) -> tensor<8x1xf32>
    %1 = "stepwell.sub"(%x, %0) : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
    return %1 : tensor<8x64xf32>
  }
}
