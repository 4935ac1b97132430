// RUN: stepwell-opt %s --stepwell-convert-layout | FileCheck %s

// CHECK-LABEL: func.func @max_pool
// CHECK-SAME: (%[[X:.+]]: tensor<1x8x4x6xf32>)
func.func @max_pool(%x: tensor<1x8x4x6xf32>) -> tensor<1x8x2x3xf32> {
  // CHECK: %[[LAST:.+]] = "stepwell.transpose"(%[[X]]) {permutation = array<i64: 0, 2, 3, 1>}
  // CHECK: %[[POOL:.+]] = "stepwell.max_pool"(%[[LAST]])
  // CHECK-SAME: layout = "channels_last"
  // CHECK-SAME: -> tensor<1x2x3x8xf32>
  // CHECK: %[[FIRST:.+]] = "stepwell.transpose"(%[[POOL]]) {permutation = array<i64: 0, 3, 1, 2>}
  // CHECK: return %[[FIRST]]
  %0 = "stepwell.max_pool"(%x) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x8x4x6xf32>) -> tensor<1x8x2x3xf32>
  return %0 : tensor<1x8x2x3xf32>
}

// CHECK-LABEL: func.func @resize
func.func @resize(%x: tensor<1x2x4x3xf32>) -> tensor<1x2x8x3xf32> {
  // CHECK: stepwell.resize
  // CHECK-SAME: scales = dense<[1.000000e+00, 2.000000e+00, 1.000000e+00, 1.000000e+00]>
  // CHECK-SAME: sizes = array<i64: 1, 8, 3, 2>
  %0 = "stepwell.resize"(%x) {sizes = array<i64: 1, 2, 8, 3>, scales = dense<[1.0, 1.0, 2.0, 1.0]> : tensor<4xf32>}
    : (tensor<1x2x4x3xf32>) -> tensor<1x2x8x3xf32>
  return %0 : tensor<1x2x8x3xf32>
}

// CHECK-LABEL: func.func @negative_channels_last
func.func @negative_channels_last(%x: tensor<1x4x6x8xf32>) -> tensor<1x2x3x8xf32> {
  // CHECK-NEXT: stepwell.max_pool
  // CHECK-NEXT: return
  %0 = "stepwell.max_pool"(%x) {layout = "channels_last", kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x4x6x8xf32>) -> tensor<1x2x3x8xf32>
  return %0 : tensor<1x2x3x8xf32>
}
