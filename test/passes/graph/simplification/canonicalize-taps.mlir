// RUN: stepwell-opt %s --stepwell-canonicalize | FileCheck %s

// The outer taps along the only row meet padding.
// CHECK-LABEL: func.func @one_row
func.func @one_row(%x: tensor<1x2x1x6xf32>, %w: tensor<4x2x3x3xf32>) -> tensor<1x4x1x6xf32> {
  // CHECK-NEXT: %[[W:.+]] = "stepwell.slice"(%{{.+}}) {starts = array<i64: 0, 0, 1, 0>, steps = array<i64: 1, 1, 1, 1>, stops = array<i64: 4, 2, 2, 3>}
  // CHECK-NEXT: "stepwell.conv"(%{{.+}}, %[[W]]) {{.*}}pads = array<i64: 0, 1, 0, 1>
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x2x1x6xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x1x6xf32>
  return %0 : tensor<1x4x1x6xf32>
}

// CHECK-LABEL: func.func @two_frames_become_one
func.func @two_frames_become_one(%x: tensor<1x2x8x8x3xf32>, %w: tensor<4x3x3x3x3xf32>) -> tensor<1x1x8x8x4xf32> {
  // CHECK: "stepwell.slice"(%{{.+}}) {starts = array<i64: 0, 0, 1, 0, 0>
  // CHECK: "stepwell.conv"{{.*}} pads = array<i64: 0, 1, 1, 0, 1, 1>
  %0 = "stepwell.conv"(%x, %w) {layout = "channels_last", strides = array<i64: 2, 1, 1>, pads = array<i64: 1, 1, 1, 0, 1, 1>, dilations = array<i64: 1, 1, 1>}
    : (tensor<1x2x8x8x3xf32>, tensor<4x3x3x3x3xf32>) -> tensor<1x1x8x8x4xf32>
  return %0 : tensor<1x1x8x8x4xf32>
}

// Neighbours of a tap that are further away than the image is wide.
// CHECK-LABEL: func.func @wide_dilation
func.func @wide_dilation(%x: tensor<1x2x5x5xf32>, %w: tensor<4x2x3x3xf32>) -> tensor<1x4x5x5xf32> {
  // CHECK: "stepwell.conv"{{.*}}dilations = array<i64: 6, 6>{{.*}} pads = array<i64: 0, 0, 0, 0>
  // CHECK-SAME: tensor<4x2x1x1xf32>
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 6, 6, 6, 6>, dilations = array<i64: 6, 6>}
    : (tensor<1x2x5x5xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x5x5xf32>
  return %0 : tensor<1x4x5x5xf32>
}

// One tap stays, and padding that no whole tap accounts for.
// CHECK-LABEL: func.func @negative_last_tap
func.func @negative_last_tap(%x: tensor<1x2x1x1xf32>, %w: tensor<4x2x1x1xf32>) -> tensor<1x4x3x3xf32> {
  // CHECK-NEXT: "stepwell.conv"{{.*}} pads = array<i64: 1, 1, 1, 1>
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x2x1x1xf32>, tensor<4x2x1x1xf32>) -> tensor<1x4x3x3xf32>
  return %0 : tensor<1x4x3x3xf32>
}

// CHECK-LABEL: func.func @negative_all_taps_meet_data
func.func @negative_all_taps_meet_data(%x: tensor<1x2x2x2xf32>, %w: tensor<4x2x3x3xf32>) -> tensor<1x4x2x2xf32> {
  // CHECK-NEXT: "stepwell.conv"{{.*}} pads = array<i64: 1, 1, 1, 1>
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x2x2x2xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x2x2xf32>
  return %0 : tensor<1x4x2x2xf32>
}

// CHECK-LABEL: func.func @negative_sizes_are_not_known
func.func @negative_sizes_are_not_known(%x: tensor<1x2x?x1xf32>, %w: tensor<4x2x3x3xf32>) -> tensor<1x4x?x1xf32> {
  // CHECK-NEXT: "stepwell.conv"{{.*}} pads = array<i64: 1, 1, 1, 1>
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x2x?x1xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x?x1xf32>
  return %0 : tensor<1x4x?x1xf32>
}

// Without the first tap, the rows would begin after the first one: padding does not become negative.
// CHECK-LABEL: func.func @negative_padding_less_than_dilation
func.func @negative_padding_less_than_dilation(%x: tensor<1x2x1x6xf32>, %w: tensor<4x2x2x1xf32>) -> tensor<1x4x1x6xf32> {
  // CHECK-NEXT: "stepwell.conv"{{.*}} pads = array<i64: 1, 0, 1, 0>
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 1, 0, 1, 0>, dilations = array<i64: 2, 1>}
    : (tensor<1x2x1x6xf32>, tensor<4x2x2x1xf32>) -> tensor<1x4x1x6xf32>
  return %0 : tensor<1x4x1x6xf32>
}

// The first tap reads padding at the first position, but data at the second one; the last tap likewise.
// CHECK-LABEL: func.func @negative_data_at_other_positions
func.func @negative_data_at_other_positions(%x: tensor<1x2x2x6xf32>, %w: tensor<4x2x3x1xf32>) -> tensor<1x4x2x6xf32> {
  // CHECK-NEXT: "stepwell.conv"{{.*}} pads = array<i64: 1, 0, 1, 0>
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 1, 0, 1, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x2x2x6xf32>, tensor<4x2x3x1xf32>) -> tensor<1x4x2x6xf32>
  return %0 : tensor<1x4x2x6xf32>
}

// The bias is added as before, and the groups stay.
// CHECK-LABEL: func.func @bias
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<4xf32>)
func.func @bias(%x: tensor<1x4x1x6xf32>, %w: tensor<4x2x3x1xf32>, %b: tensor<4xf32>) -> tensor<1x4x1x6xf32> {
  // CHECK: "stepwell.conv"(%{{.+}}, %{{.+}}, %[[B]]){{.*}} pads = array<i64: 0, 0, 0, 0>
  %0 = "stepwell.conv"(%x, %w, %b) {strides = array<i64: 1, 1>, pads = array<i64: 1, 0, 1, 0>, dilations = array<i64: 1, 1>, group = 2 : i64}
    : (tensor<1x4x1x6xf32>, tensor<4x2x3x1xf32>, tensor<4xf32>) -> tensor<1x4x1x6xf32>
  return %0 : tensor<1x4x1x6xf32>
}

// The only position reads padding, but a kernel without taps is none.
// CHECK-LABEL: func.func @negative_only_tap_reads_padding
func.func @negative_only_tap_reads_padding(%x: tensor<1x2x1x6xf32>, %w: tensor<4x2x1x1xf32>) -> tensor<1x4x1x6xf32> {
  // CHECK-NEXT: "stepwell.conv"{{.*}} pads = array<i64: 1, 0, 0, 0>
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 3, 1>, pads = array<i64: 1, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x2x1x6xf32>, tensor<4x2x1x1xf32>) -> tensor<1x4x1x6xf32>
  return %0 : tensor<1x4x1x6xf32>
}
