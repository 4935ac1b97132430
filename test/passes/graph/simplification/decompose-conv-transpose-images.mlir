// RUN: stepwell-opt %s --split-input-file --stepwell-decompose | FileCheck %s

// A weight that is computed in every run, and is larger than the images, stays as it is: they are reversed.
// CHECK-LABEL: func.func @small_images
// CHECK:         %[[R:.+]] = "stepwell.reverse"(%{{.+}}) {axes = array<i64: 1, 2>} : (tensor<1x5x5x2xf32>)
// CHECK-NOT:     stepwell.reverse
// CHECK:         %[[C:.+]] = "stepwell.conv"(%[[R]], 
// CHECK:         "stepwell.reverse"(%[[C]]) {axes = array<i64: 1, 2>} : (tensor<1x3x3x8xf32>)
func.func @small_images(%x: tensor<1x3x3x2xf32>, %w: tensor<2x8x3x3xf32>) -> tensor<1x3x3x8xf32> {
  %0 = "stepwell.conv_transpose"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
      dilations = array<i64: 1, 1>, output_padding = array<i64: 0, 0>, layout = "channels_last"}
      : (tensor<1x3x3x2xf32>, tensor<2x8x3x3xf32>) -> tensor<1x3x3x8xf32>
  return %0 : tensor<1x3x3x8xf32>
}

// -----

// CHECK-LABEL: func.func @negative_large_images
// CHECK:         "stepwell.reverse"(%{{.+}}) {axes = array<i64: 2, 3>} : (tensor<2x8x3x3xf32>)
// CHECK-NOT:     stepwell.reverse
func.func @negative_large_images(%x: tensor<1x9x9x2xf32>, %w: tensor<2x8x3x3xf32>) -> tensor<1x9x9x8xf32> {
  %0 = "stepwell.conv_transpose"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
      dilations = array<i64: 1, 1>, output_padding = array<i64: 0, 0>, layout = "channels_last"}
      : (tensor<1x9x9x2xf32>, tensor<2x8x3x3xf32>) -> tensor<1x9x9x8xf32>
  return %0 : tensor<1x9x9x8xf32>
}
