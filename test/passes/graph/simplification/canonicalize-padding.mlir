// RUN: stepwell-opt %s --stepwell-canonicalize | FileCheck %s

// CHECK-LABEL: func.func @pad_into_conv
func.func @pad_into_conv(%x: tensor<1x2x6x6xf32>, %w: tensor<4x2x3x3xf32>) -> tensor<1x4x6x6xf32> {
  %0 = "stepwell.pad"(%x) {low = array<i64: 0, 0, 1, 1>, high = array<i64: 0, 0, 1, 1>} : (tensor<1x2x6x6xf32>) -> tensor<1x2x8x8xf32>
  // CHECK-NEXT: stepwell.conv
  // CHECK-SAME: pads = array<i64: 1, 1, 1, 1>
  %1 = "stepwell.conv"(%0, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x2x8x8xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x6x6xf32>
  return %1 : tensor<1x4x6x6xf32>
}

// CHECK-LABEL: func.func @negative_pad_with_ones
func.func @negative_pad_with_ones(%x: tensor<1x2x6x6xf32>, %w: tensor<4x2x3x3xf32>) -> tensor<1x4x6x6xf32> {
  // CHECK-NEXT: stepwell.pad
  %0 = "stepwell.pad"(%x) {low = array<i64: 0, 0, 1, 1>, high = array<i64: 0, 0, 1, 1>, value = 1.0 : f64} : (tensor<1x2x6x6xf32>) -> tensor<1x2x8x8xf32>
  %1 = "stepwell.conv"(%0, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x2x8x8xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x6x6xf32>
  return %1 : tensor<1x4x6x6xf32>
}

// CHECK-LABEL: func.func @negative_pad_with_edges
func.func @negative_pad_with_edges(%x: tensor<1x2x6x6xf32>, %w: tensor<4x2x3x3xf32>) -> tensor<1x4x6x6xf32> {
  // CHECK-NEXT: stepwell.pad
  %0 = "stepwell.pad"(%x) {low = array<i64: 0, 0, 1, 1>, high = array<i64: 0, 0, 1, 1>, mode = "edge"} : (tensor<1x2x6x6xf32>) -> tensor<1x2x8x8xf32>
  %1 = "stepwell.conv"(%0, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x2x8x8xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x6x6xf32>
  return %1 : tensor<1x4x6x6xf32>
}

// A convolution pads only rows and columns, not channels.
// CHECK-LABEL: func.func @negative_pad_of_channels
func.func @negative_pad_of_channels(%x: tensor<1x1x6x6xf32>, %w: tensor<4x2x3x3xf32>) -> tensor<1x4x6x6xf32> {
  // CHECK-NEXT: stepwell.pad
  %0 = "stepwell.pad"(%x) {low = array<i64: 0, 1, 1, 1>, high = array<i64: 0, 0, 1, 1>} : (tensor<1x1x6x6xf32>) -> tensor<1x2x8x8xf32>
  %1 = "stepwell.conv"(%0, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x2x8x8xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x6x6xf32>
  return %1 : tensor<1x4x6x6xf32>
}

// The last dimension holds the channels here.
// CHECK-LABEL: func.func @negative_pad_of_last_channels
func.func @negative_pad_of_last_channels(%x: tensor<1x8x8x1xf32>, %w: tensor<4x2x3x3xf32>) -> tensor<1x6x6x4xf32> {
  // CHECK-NEXT: stepwell.pad
  %0 = "stepwell.pad"(%x) {low = array<i64: 0, 0, 0, 1>, high = array<i64: 0, 0, 0, 0>} : (tensor<1x8x8x1xf32>) -> tensor<1x8x8x2xf32>
  %1 = "stepwell.conv"(%0, %w) {layout = "channels_last", strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x8x8x2xf32>, tensor<4x2x3x3xf32>) -> tensor<1x6x6x4xf32>
  return %1 : tensor<1x6x6x4xf32>
}

// Padding of the convolution and before it add up.
// CHECK-LABEL: func.func @pad_twice
func.func @pad_twice(%x: tensor<1x2x6x6xf32>, %w: tensor<4x2x3x3xf32>) -> tensor<1x4x7x8xf32> {
  %0 = "stepwell.pad"(%x) {low = array<i64: 0, 0, 1, 0>, high = array<i64: 0, 0, 0, 2>} : (tensor<1x2x6x6xf32>) -> tensor<1x2x7x8xf32>
  // CHECK-NEXT: "stepwell.conv"{{.*}} pads = array<i64: 2, 1, 1, 3>
  %1 = "stepwell.conv"(%0, %w) {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x2x7x8xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x7x8xf32>
  return %1 : tensor<1x4x7x8xf32>
}
