// RUN: stepwell-opt %s --stepwell-pack-weights="machine=x86-64-v4+vector_bytes=1099511627776 by-depth=true" --split-input-file | FileCheck %s

// The weight is stored along the depth, rounded to tf32: c - (c - w) with c = w * 8193.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.+]]: tensor<8x64xf32>
func.func @main(%x: tensor<8x64xf32>) -> tensor<8x96xf32> {
  // CHECK: %[[W:.+]] = "stepwell.parameter"()
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 64, 96>, dtype = f32} : () -> tensor<64x96xf32>
  // CHECK: %[[T:.+]] = "stepwell.transpose"(%[[W]]) {{.*}} -> tensor<96x64xf32>
  // CHECK: %[[C:.+]] = "stepwell.mul"(%[[T]],
  // CHECK: %[[L:.+]] = "stepwell.sub"(%[[C]], %[[T]])
  // CHECK: %[[R:.+]] = "stepwell.sub"(%[[C]], %[[L]])
  // CHECK: "stepwell.matmul"(%[[X]], %[[R]]) {transpose_rhs = true}
  %0 = "stepwell.matmul"(%x, %w) : (tensor<8x64xf32>, tensor<64x96xf32>) -> tensor<8x96xf32>
  return %0 : tensor<8x96xf32>
}

// -----

// CHECK-LABEL: func.func @conv_of_one_pixel
func.func @conv_of_one_pixel(%x: tensor<1x8x8x4xf32>, %b: tensor<32xf32>) -> tensor<1x8x8x32xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 32, 4, 1, 1>, dtype = f32} : () -> tensor<32x4x1x1xf32>
  // CHECK: "stepwell.reshape"{{.*}} -> tensor<32x4xf32>
  // CHECK: %[[M:.+]] = "stepwell.matmul"{{.*}} {transpose_rhs = true}
  // CHECK: "stepwell.add"(%[[M]],
  %0 = "stepwell.conv"(%x, %w, %b) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "channels_last"} : (tensor<1x8x8x4xf32>, tensor<32x4x1x1xf32>, tensor<32xf32>) -> tensor<1x8x8x32xf32>
  return %0 : tensor<1x8x8x32xf32>
}

// -----

// Columns fill whole panels.
// CHECK-LABEL: func.func @negative_part_of_a_panel
// CHECK-NOT: stepwell.mul
// CHECK: stepwell.packed_matmul
func.func @negative_part_of_a_panel(%x: tensor<8x64xf32>) -> tensor<8x100xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 64, 100>, dtype = f32} : () -> tensor<64x100xf32>
  %0 = "stepwell.matmul"(%x, %w) : (tensor<8x64xf32>, tensor<64x100xf32>) -> tensor<8x100xf32>
  return %0 : tensor<8x100xf32>
}

// -----

// The copy engine loads lines that begin at multiples of 16 bytes.
// CHECK-LABEL: func.func @negative_lines_of_other_lengths
// CHECK-NOT: stepwell.mul
// CHECK: stepwell.packed_matmul
func.func @negative_lines_of_other_lengths(%x: tensor<8x62xf32>) -> tensor<8x96xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 62, 96>, dtype = f32} : () -> tensor<62x96xf32>
  %0 = "stepwell.matmul"(%x, %w) : (tensor<8x62xf32>, tensor<62x96xf32>) -> tensor<8x96xf32>
  return %0 : tensor<8x96xf32>
}

// -----

// Only f32 is rounded to tf32.
// CHECK-LABEL: func.func @negative_halves
// CHECK-NOT: stepwell.mul
// CHECK: stepwell.packed_matmul
func.func @negative_halves(%x: tensor<8x64xf16>) -> tensor<8x64xf16> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 64, 64>, dtype = f16} : () -> tensor<64x64xf16>
  %0 = "stepwell.matmul"(%x, %w) : (tensor<8x64xf16>, tensor<64x64xf16>) -> tensor<8x64xf16>
  return %0 : tensor<8x64xf16>
}

// -----

// A product has one tap.
// CHECK-LABEL: func.func @negative_nine_taps
// CHECK-NOT: stepwell.matmul
// CHECK: stepwell.packed_conv
func.func @negative_nine_taps(%x: tensor<1x10x10x4xf32>) -> tensor<1x8x8x32xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 32, 4, 3, 3>, dtype = f32} : () -> tensor<32x4x3x3xf32>
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x10x10x4xf32>, tensor<32x4x3x3xf32>) -> tensor<1x8x8x32xf32>
  return %0 : tensor<1x8x8x32xf32>
}

// -----

// A stride leaves out pixels.
// CHECK-LABEL: func.func @negative_stride
// CHECK-NOT: stepwell.matmul
// CHECK: stepwell.packed_conv
func.func @negative_stride(%x: tensor<1x8x8x4xf32>) -> tensor<1x4x4x32xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 32, 4, 1, 1>, dtype = f32} : () -> tensor<32x4x1x1xf32>
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x8x8x4xf32>, tensor<32x4x1x1xf32>) -> tensor<1x4x4x32xf32>
  return %0 : tensor<1x4x4x32xf32>
}

// -----

// Padding adds pixels.
// CHECK-LABEL: func.func @negative_padding
// CHECK-NOT: stepwell.matmul
// CHECK: stepwell.packed_conv
func.func @negative_padding(%x: tensor<1x8x8x4xf32>) -> tensor<1x10x10x32xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 32, 4, 1, 1>, dtype = f32} : () -> tensor<32x4x1x1xf32>
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x8x8x4xf32>, tensor<32x4x1x1xf32>) -> tensor<1x10x10x32xf32>
  return %0 : tensor<1x10x10x32xf32>
}
