// RUN: stepwell-opt %s --stepwell-pack-weights=machine=x86-64-v4 --split-input-file | FileCheck %s

// A weight that is computed in every run is packed by one movement, in panels without a remainder.
// CHECK-LABEL: func.func @computed
// CHECK-SAME: (%[[X:.+]]: tensor<1x4x4x8xf32>, %[[W:.+]]: tensor<64x8x3x3xf32>)
func.func @computed(%x: tensor<1x4x4x8xf32>, %w: tensor<64x8x3x3xf32>) -> tensor<1x2x2x64xf32> {
  // CHECK: %[[S:.+]] = "stepwell.reshape"(%[[W]]) {shape = array<i64: 2, 32, 8, 3, 3>}
  // CHECK: %[[T:.+]] = "stepwell.transpose"(%[[S]]) {permutation = array<i64: 0, 3, 4, 2, 1>}
  // CHECK: %[[P:.+]] = "stepwell.reshape"(%[[T]]) {shape = array<i64: 4608>}
  // CHECK: "stepwell.packed_conv"(%[[X]], %[[P]]) {{.*}}panel = 32
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
      group = 1 : i64, layout = "channels_last"} : (tensor<1x4x4x8xf32>, tensor<64x8x3x3xf32>) -> tensor<1x2x2x64xf32>
  return %0 : tensor<1x2x2x64xf32>
}

// -----

// No width divides the columns, so the panels of two widths are joined.
// CHECK-LABEL: func.func @negative_remainder
// CHECK: "stepwell.concat"
func.func @negative_remainder(%x: tensor<1x4x4x8xf32>, %w: tensor<67x8x3x3xf32>) -> tensor<1x2x2x67xf32> {
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
      group = 1 : i64, layout = "channels_last"} : (tensor<1x4x4x8xf32>, tensor<67x8x3x3xf32>) -> tensor<1x2x2x67xf32>
  return %0 : tensor<1x2x2x67xf32>
}
