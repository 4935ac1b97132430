// RUN: stepwell-opt %s --stepwell-make-padding-explicit | FileCheck %s

// CHECK-LABEL: func.func @channels_last
func.func @channels_last(%x: tensor<1x6x6x2xf32>, %w: tensor<4x2x3x3xf32>) -> tensor<1x6x7x4xf32> {
  // CHECK-NEXT: %[[P:.+]] = "stepwell.pad"(%{{.+}}) {high = array<i64: 0, 1, 2, 0>, low = array<i64: 0, 1, 1, 0>
  // CHECK-NEXT: "stepwell.conv"(%[[P]], %{{[a-z0-9]+}})
  // CHECK-SAME: pads = array<i64: 0, 0, 0, 0>
  %0 = "stepwell.conv"(%x, %w) {layout = "channels_last", strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 2>, dilations = array<i64: 1, 1>}
    : (tensor<1x6x6x2xf32>, tensor<4x2x3x3xf32>) -> tensor<1x6x7x4xf32>
  return %0 : tensor<1x6x7x4xf32>
}

// CHECK-LABEL: func.func @negative_no_padding
func.func @negative_no_padding(%x: tensor<1x6x6x2xf32>, %w: tensor<4x2x3x3xf32>) -> tensor<1x4x4x4xf32> {
  // CHECK-NEXT: stepwell.conv
  %0 = "stepwell.conv"(%x, %w) {layout = "channels_last", strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x6x6x2xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x4x4xf32>
  return %0 : tensor<1x4x4x4xf32>
}
