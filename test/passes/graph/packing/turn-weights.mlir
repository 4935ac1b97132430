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

// Partial panels of columns, other types, and ops other than products are packed as usual.
// CHECK-LABEL: func.func @others
func.func @others(%x: tensor<8x64xf32>, %y: tensor<8x64xf16>, %z: tensor<1x10x10x4xf32>)
    -> (tensor<8x100xf32>, tensor<8x64xf16>, tensor<1x8x8x32xf32>) {
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 64, 100>, dtype = f32} : () -> tensor<64x100xf32>
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 64, 64>, dtype = f16} : () -> tensor<64x64xf16>
  %k = "stepwell.parameter"() {name = "k", shape = array<i64: 32, 4, 3, 3>, dtype = f32} : () -> tensor<32x4x3x3xf32>
  // CHECK-NOT: stepwell.mul
  // CHECK-COUNT-2: "stepwell.packed_matmul"
  // CHECK: "stepwell.packed_conv"
  %0 = "stepwell.matmul"(%x, %v) : (tensor<8x64xf32>, tensor<64x100xf32>) -> tensor<8x100xf32>
  %1 = "stepwell.matmul"(%y, %w) : (tensor<8x64xf16>, tensor<64x64xf16>) -> tensor<8x64xf16>
  %2 = "stepwell.conv"(%z, %k) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "channels_last"} : (tensor<1x10x10x4xf32>, tensor<32x4x3x3xf32>) -> tensor<1x8x8x32xf32>
  return %0, %1, %2 : tensor<8x100xf32>, tensor<8x64xf16>, tensor<1x8x8x32xf32>
}
