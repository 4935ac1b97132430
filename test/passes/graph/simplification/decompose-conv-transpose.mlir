// RUN: stepwell-opt %s --split-input-file --stepwell-decompose | FileCheck %s

// If no two windows of a transposed convolution overlap, each pixel becomes a block.
// CHECK-LABEL: func.func @blocks
// CHECK:         %[[P:.+]] = "stepwell.conv"({{.+}}) {{.*}}strides = array<i64: 1, 1>
// CHECK:         %[[B:.+]] = "stepwell.reshape"(%[[P]]) {shape = array<i64: 1, 4, 5, 2, 2, 6>}
// CHECK:         "stepwell.transpose"(%[[B]]) {permutation = array<i64: 0, 1, 3, 2, 4, 5>}
// CHECK-NOT:     stepwell.conv_transpose
func.func @blocks(%x: tensor<1x4x5x3xf32>, %w: tensor<3x6x2x2xf32>) -> tensor<1x8x10x6xf32> {
  %0 = "stepwell.conv_transpose"(%x, %w) {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>,
      dilations = array<i64: 1, 1>, output_padding = array<i64: 0, 0>, layout = "channels_last"}
      : (tensor<1x4x5x3xf32>, tensor<3x6x2x2xf32>) -> tensor<1x8x10x6xf32>
  return %0 : tensor<1x8x10x6xf32>
}

// -----

// If windows overlap, each phase of the stride is a convolution over the pixels that contribute to it. The phases are
// interleaved, and the padding is cut off.
// CHECK-LABEL: func.func @overlapping_windows
// CHECK-NOT:     stepwell.pad
// CHECK:         %[[P:.+]] = "stepwell.conv"({{.+}}) {{.*}}pads = array<i64: 1, 1, 1, 1>
// CHECK:         %[[B:.+]] = "stepwell.reshape"(%[[P]]) {shape = array<i64: 1, 5, 6, 2, 2, 6>}
// CHECK:         %[[T:.+]] = "stepwell.transpose"(%[[B]]) {permutation = array<i64: 0, 1, 3, 2, 4, 5>}
// CHECK:         %[[W:.+]] = "stepwell.reshape"(%[[T]]) {shape = array<i64: 1, 10, 12, 6>}
// CHECK:         "stepwell.slice"(%[[W]]) {starts = array<i64: 0, 1, 1, 0>
func.func @overlapping_windows(%x: tensor<1x4x5x3xf32>, %w: tensor<3x6x4x4xf32>) -> tensor<1x8x10x6xf32> {
  %0 = "stepwell.conv_transpose"(%x, %w) {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>,
      dilations = array<i64: 1, 1>, output_padding = array<i64: 0, 0>, layout = "channels_last"}
      : (tensor<1x4x5x3xf32>, tensor<3x6x4x4xf32>) -> tensor<1x8x10x6xf32>
  return %0 : tensor<1x8x10x6xf32>
}

// -----

// Phases with fewer taps have separate convolutions.
// CHECK-LABEL: func.func @phases_with_fewer_taps
// CHECK-COUNT-2: "stepwell.conv"
// CHECK:         "stepwell.concat"
// CHECK-COUNT-2: "stepwell.conv"
// CHECK-COUNT-2: "stepwell.concat"
// CHECK-NOT:     "stepwell.conv"
func.func @phases_with_fewer_taps(%x: tensor<1x4x5x3xf32>, %w: tensor<3x6x3x3xf32>) -> tensor<1x9x11x6xf32> {
  %0 = "stepwell.conv_transpose"(%x, %w) {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>,
      dilations = array<i64: 1, 1>, output_padding = array<i64: 0, 0>, layout = "channels_last"}
      : (tensor<1x4x5x3xf32>, tensor<3x6x3x3xf32>) -> tensor<1x9x11x6xf32>
  return %0 : tensor<1x9x11x6xf32>
}

// -----

// The taps of a phase of a dilated kernel are not adjacent: it reads zeros between the pixels.
// CHECK-LABEL: func.func @negative_dilated_kernel
// CHECK:         "stepwell.pad"
// CHECK:         "stepwell.reverse"
// CHECK:         "stepwell.conv"({{.+}}) {{.*}}strides = array<i64: 1, 1>
// CHECK-NOT:     stepwell.conv
func.func @negative_dilated_kernel(%x: tensor<1x4x5x3xf32>, %w: tensor<3x6x3x3xf32>) -> tensor<1x11x13x6xf32> {
  %0 = "stepwell.conv_transpose"(%x, %w) {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>,
      dilations = array<i64: 2, 2>, output_padding = array<i64: 0, 0>, layout = "channels_last"}
      : (tensor<1x4x5x3xf32>, tensor<3x6x3x3xf32>) -> tensor<1x11x13x6xf32>
  return %0 : tensor<1x11x13x6xf32>
}

// -----

// Without a stride, there is one phase, and no zero between pixels.
// CHECK-LABEL: func.func @negative_one_phase
// CHECK:         "stepwell.pad"
// CHECK:         "stepwell.reverse"
// CHECK:         "stepwell.conv"({{.+}}) {{.*}}strides = array<i64: 1, 1>
// CHECK-NOT:     stepwell.conv
func.func @negative_one_phase(%x: tensor<1x4x5x3xf32>, %w: tensor<3x6x3x3xf32>) -> tensor<1x6x7x6xf32> {
  %0 = "stepwell.conv_transpose"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
      dilations = array<i64: 1, 1>, output_padding = array<i64: 0, 0>, layout = "channels_last"}
      : (tensor<1x4x5x3xf32>, tensor<3x6x3x3xf32>) -> tensor<1x6x7x6xf32>
  return %0 : tensor<1x6x7x6xf32>
}

// -----

// Loads limit depthwise convolutions, which gain nothing from fewer multiplications.
// CHECK-LABEL: func.func @negative_depthwise
// CHECK:         "stepwell.reverse"
// CHECK:         "stepwell.conv"({{.+}}) {{.*}}strides = array<i64: 1, 1>
// CHECK-NOT:     stepwell.conv
func.func @negative_depthwise(%x: tensor<1x4x5x3xf32>, %w: tensor<3x1x2x2xf32>) -> tensor<1x8x10x3xf32> {
  %0 = "stepwell.conv_transpose"(%x, %w) {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>,
      dilations = array<i64: 1, 1>, output_padding = array<i64: 0, 0>, layout = "channels_last", group = 3 : i64}
      : (tensor<1x4x5x3xf32>, tensor<3x1x2x2xf32>) -> tensor<1x8x10x3xf32>
  return %0 : tensor<1x8x10x3xf32>
}

// -----

// Before the conversion to channels-last, it stays.
// CHECK-LABEL: func.func @negative_channels_first
// CHECK-NEXT:    stepwell.conv_transpose
func.func @negative_channels_first(%x: tensor<1x3x4x5xf32>, %w: tensor<3x6x3x3xf32>) -> tensor<1x6x9x11xf32> {
  %0 = "stepwell.conv_transpose"(%x, %w) {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>,
      dilations = array<i64: 1, 1>, output_padding = array<i64: 0, 0>, layout = "channels_first"}
      : (tensor<1x3x4x5xf32>, tensor<3x6x3x3xf32>) -> tensor<1x6x9x11xf32>
  return %0 : tensor<1x6x9x11xf32>
}

// -----

// CHECK-LABEL: func.func @negative_unknown_size
// CHECK-NEXT:    stepwell.conv_transpose
func.func @negative_unknown_size(%x: tensor<1x?x5x3xf32>, %w: tensor<3x6x2x2xf32>) -> tensor<1x?x10x6xf32> {
  %0 = "stepwell.conv_transpose"(%x, %w) {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>,
      dilations = array<i64: 1, 1>, output_padding = array<i64: 0, 0>, layout = "channels_last"}
      : (tensor<1x?x5x3xf32>, tensor<3x6x2x2xf32>) -> tensor<1x?x10x6xf32>
  return %0 : tensor<1x?x10x6xf32>
}
