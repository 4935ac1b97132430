// RUN: stepwell-opt %s --stepwell-pack-weights=machine=x86-64-v4 --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.+]]: tensor<8x4xf32>
func.func @main(%x: tensor<8x4xf32>) -> tensor<8x100xf32> {
  // Two panels of 48 columns and a tail of 4 take fewer registers than equal panels.
  // CHECK: %[[W:.+]] = "stepwell.parameter"()
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 100>, dtype = f32} : () -> tensor<4x100xf32>
  // CHECK: %[[T:.+]] = "stepwell.transpose"(%[[W]]) {{.*}} -> tensor<100x4xf32>
  // CHECK: %[[P:[0-9]+]] = "stepwell.concat"
  // CHECK: "stepwell.packed_matmul"(%[[X]], %[[P]]) {columns = 100 : i64, panel = 48 : i64}
  %0 = "stepwell.matmul"(%x, %w) : (tensor<8x4xf32>, tensor<4x100xf32>) -> tensor<8x100xf32>
  return %0 : tensor<8x100xf32>
}

// -----

// One row: a panel of eight registers, the only source of independent sums.
// CHECK-LABEL: func.func @matmul_one_row
func.func @matmul_one_row(%x: tensor<1x4xf32>) -> tensor<1x256xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 256, 4>, dtype = f32} : () -> tensor<256x4xf32>
  // CHECK: "stepwell.packed_matmul"{{.*}} {columns = 256 : i64, panel = 128 : i64}
  %0 = "stepwell.matmul"(%x, %w) {transpose_rhs = true} : (tensor<1x4xf32>, tensor<256x4xf32>) -> tensor<1x256xf32>
  return %0 : tensor<1x256xf32>
}

// -----

// CHECK-LABEL: func.func @conv_with_bias
func.func @conv_with_bias(%x: tensor<1x10x10x4xf32>, %b: tensor<32xf32>) -> tensor<1x8x8x32xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 32, 4, 3, 3>, dtype = f32} : () -> tensor<32x4x3x3xf32>
  // CHECK: "stepwell.transpose"{{.*}} -> tensor<32x3x3x4xf32>
  // CHECK: %[[C:.+]] = "stepwell.packed_conv"{{.*}} kernel = array<i64: 3, 3>
  // CHECK: "stepwell.add"(%[[C]],
  %0 = "stepwell.conv"(%x, %w, %b) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "channels_last"} : (tensor<1x10x10x4xf32>, tensor<32x4x3x3xf32>, tensor<32xf32>) -> tensor<1x8x8x32xf32>
  return %0 : tensor<1x8x8x32xf32>
}

// -----

// CHECK-LABEL: func.func @conv_of_one_pixel
func.func @conv_of_one_pixel(%x: tensor<1x8x8x4xf32>) -> tensor<1x8x8x32xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 32, 4, 1, 1>, dtype = f32} : () -> tensor<32x4x1x1xf32>
  // CHECK: "stepwell.packed_matmul"
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "channels_last"} : (tensor<1x8x8x4xf32>, tensor<32x4x1x1xf32>) -> tensor<1x8x8x32xf32>
  return %0 : tensor<1x8x8x32xf32>
}

// -----

// CHECK-LABEL: func.func @conv_depthwise
func.func @conv_depthwise(%x: tensor<1x10x10x8xf32>) -> tensor<1x8x8x8xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 8, 1, 3, 3>, dtype = f32} : () -> tensor<8x1x3x3xf32>
  // CHECK: %[[W:.+]] = "stepwell.transpose"{{.*}} -> tensor<3x3x8xf32>
  // CHECK: "stepwell.packed_depthwise_conv"(%{{.+}}, %[[W]])
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 8 : i64, layout = "channels_last"} : (tensor<1x10x10x8xf32>, tensor<8x1x3x3xf32>) -> tensor<1x8x8x8xf32>
  return %0 : tensor<1x8x8x8xf32>
}

// -----

// A register of columns holds four groups.
// CHECK-LABEL: func.func @conv_of_narrow_groups
func.func @conv_of_narrow_groups(%x: tensor<1x10x10x16xf32>) -> tensor<1x8x8x16xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 16, 4, 3, 3>, dtype = f32} : () -> tensor<16x4x3x3xf32>
  // CHECK: %[[W:.+]] = "stepwell.transpose"{{.*}} -> tensor<3x3x4x16xf32>
  // CHECK: "stepwell.packed_grouped_conv"(%{{.+}}, %[[W]]) {{.*}}group = 4
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 4 : i64, layout = "channels_last"} : (tensor<1x10x10x16xf32>, tensor<16x4x3x3xf32>) -> tensor<1x8x8x16xf32>
  return %0 : tensor<1x8x8x16xf32>
}

// -----

// A register of columns holds half a group.
// CHECK-LABEL: func.func @negative_conv_of_wide_groups
func.func @negative_conv_of_wide_groups(%x: tensor<1x10x10x64xf32>) -> tensor<1x8x8x64xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 64, 32, 3, 3>, dtype = f32} : () -> tensor<64x32x3x3xf32>
  // CHECK: "stepwell.packed_conv"
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 2 : i64, layout = "channels_last"} : (tensor<1x10x10x64xf32>, tensor<64x32x3x3xf32>) -> tensor<1x8x8x64xf32>
  return %0 : tensor<1x8x8x64xf32>
}

// -----

// CHECK-LABEL: func.func @negative_matmul_of_activations
func.func @negative_matmul_of_activations(%x: tensor<2x8x4xf32>, %y: tensor<2x4x8xf32>) -> tensor<2x8x8xf32> {
  // CHECK: "stepwell.matmul"
  // CHECK-NOT: packed
  %0 = "stepwell.matmul"(%x, %y) : (tensor<2x8x4xf32>, tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  return %0 : tensor<2x8x8xf32>
}

// -----

// CHECK-LABEL: func.func @negative_conv_channels_first
func.func @negative_conv_channels_first(%x: tensor<1x4x8x8xf32>) -> tensor<1x32x8x8xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 32, 4, 1, 1>, dtype = f32} : () -> tensor<32x4x1x1xf32>
  // CHECK: "stepwell.conv"
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x4x8x8xf32>, tensor<32x4x1x1xf32>) -> tensor<1x32x8x8xf32>
  return %0 : tensor<1x32x8x8xf32>
}

// -----

// At most sixteen rows: with panels of one register, each row would wait for each of its sums.
// CHECK-LABEL: func.func @rows_that_vary
module attributes {stepwell.ranges = {n = [1, 16, 1]}} {
  func.func @rows_that_vary(%x: tensor<16x4xf32>) -> tensor<16x512xf32> {
    %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 512>, dtype = f32} : () -> tensor<4x512xf32>
    // CHECK: "stepwell.packed_matmul"{{.*}}panel = 48
    %0 = "stepwell.matmul"(%x, %w) : (tensor<16x4xf32>, tensor<4x512xf32>) -> tensor<16x512xf32>
    return %0 : tensor<16x512xf32>
  }
}
