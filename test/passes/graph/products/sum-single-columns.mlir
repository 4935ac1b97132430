// RUN: stepwell-opt %s --stepwell-sum-single-columns | FileCheck %s

// CHECK-LABEL: func.func @product
// CHECK-SAME: (%[[X:.+]]: tensor<2x100x64xf32>, %[[W:.+]]: tensor<2x64x1xf32>)
// CHECK: %[[ROW:.+]] = "stepwell.reshape"(%[[W]]) {shape = array<i64: 2, 1, 64>}
// CHECK: %[[PRODUCTS:.+]] = "stepwell.mul"(%[[X]], %[[ROW]]) {{.*}} -> tensor<2x100x64xf32>
// CHECK: "stepwell.reduce_sum"(%[[PRODUCTS]]) {axes = array<i64: 2>} {{.*}} -> tensor<2x100x1xf32>
func.func @product(%x: tensor<2x100x64xf32>, %w: tensor<2x64x1xf32>) -> tensor<2x100x1xf32> {
  %0 = "stepwell.matmul"(%x, %w) : (tensor<2x100x64xf32>, tensor<2x64x1xf32>) -> tensor<2x100x1xf32>
  return %0 : tensor<2x100x1xf32>
}

// A transposed weight is a row already.
// CHECK-LABEL: func.func @transposed_weight
// CHECK-SAME: (%[[X:.+]]: tensor<100x64xf32>, %[[W:.+]]: tensor<1x64xf32>)
// CHECK: "stepwell.mul"(%[[X]], %[[W]])
func.func @transposed_weight(%x: tensor<100x64xf32>, %w: tensor<1x64xf32>) -> tensor<100x1xf32> {
  %0 = "stepwell.matmul"(%x, %w) {transpose_rhs = true} : (tensor<100x64xf32>, tensor<1x64xf32>) -> tensor<100x1xf32>
  return %0 : tensor<100x1xf32>
}

// CHECK-LABEL: func.func @convolution
// CHECK-SAME: (%[[X:.+]]: tensor<1x9x9x16xf32>, %[[W:.+]]: tensor<1x16x3x3xf32>, %[[B:.+]]: tensor<1xf32>)
// CHECK: %[[TAPS:.+]] = "stepwell.reshape"(%[[W]]) {shape = array<i64: 16, 1, 3, 3>}
// CHECK: %[[CONV:.+]] = "stepwell.conv"(%[[X]], %[[TAPS]]) {{{.*}}group = 16 : i64{{.*}}} {{.*}} -> tensor<1x9x9x16xf32>
// CHECK: %[[SUM:.+]] = "stepwell.reduce_sum"(%[[CONV]]) {axes = array<i64: 3>} {{.*}} -> tensor<1x9x9x1xf32>
// CHECK: "stepwell.add"(%[[SUM]], %[[B]])
func.func @convolution(%x: tensor<1x9x9x16xf32>, %w: tensor<1x16x3x3xf32>, %b: tensor<1xf32>) -> tensor<1x9x9x1xf32> {
  %0 = "stepwell.conv"(%x, %w, %b) {layout = "channels_last", strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x9x9x16xf32>, tensor<1x16x3x3xf32>, tensor<1xf32>) -> tensor<1x9x9x1xf32>
  return %0 : tensor<1x9x9x1xf32>
}

// CHECK-LABEL: func.func @single_pixels
// CHECK: stepwell.mul
// CHECK-NOT: stepwell.conv
func.func @single_pixels(%x: tensor<1x9x9x16xf32>, %w: tensor<1x16x1x1xf32>) -> tensor<1x9x9x1xf32> {
  %0 = "stepwell.conv"(%x, %w) {layout = "channels_last", strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x9x9x16xf32>, tensor<1x16x1x1xf32>) -> tensor<1x9x9x1xf32>
  return %0 : tensor<1x9x9x1xf32>
}

// CHECK-LABEL: func.func @negative_two_columns
// CHECK-NOT: stepwell.reduce_sum
func.func @negative_two_columns(%x: tensor<100x64xf32>, %w: tensor<64x2xf32>) -> tensor<100x2xf32> {
  %0 = "stepwell.matmul"(%x, %w) : (tensor<100x64xf32>, tensor<64x2xf32>) -> tensor<100x2xf32>
  return %0 : tensor<100x2xf32>
}

// CHECK-LABEL: func.func @negative_few_products
// CHECK-NOT: stepwell.reduce_sum
func.func @negative_few_products(%x: tensor<100x4xf32>, %w: tensor<4x1xf32>) -> tensor<100x1xf32> {
  %0 = "stepwell.matmul"(%x, %w) : (tensor<100x4xf32>, tensor<4x1xf32>) -> tensor<100x1xf32>
  return %0 : tensor<100x1xf32>
}

// CHECK-LABEL: func.func @negative_bytes
// CHECK-NOT: stepwell.reduce_sum
func.func @negative_bytes(%x: tensor<100x64xui8>, %w: tensor<64x1xi8>) -> tensor<100x1xi32> {
  %0 = "stepwell.matmul"(%x, %w) : (tensor<100x64xui8>, tensor<64x1xi8>) -> tensor<100x1xi32>
  return %0 : tensor<100x1xi32>
}

// CHECK-LABEL: func.func @negative_few_channels
// CHECK-NOT: stepwell.reduce_sum
func.func @negative_few_channels(%x: tensor<1x9x9x4xf32>, %w: tensor<1x4x3x3xf32>) -> tensor<1x7x7x1xf32> {
  %0 = "stepwell.conv"(%x, %w) {layout = "channels_last", strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x9x9x4xf32>, tensor<1x4x3x3xf32>) -> tensor<1x7x7x1xf32>
  return %0 : tensor<1x7x7x1xf32>
}
