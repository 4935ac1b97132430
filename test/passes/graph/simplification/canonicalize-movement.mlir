// RUN: stepwell-opt %s --stepwell-canonicalize | FileCheck %s

// CHECK-LABEL: func.func @transpose_of_transpose
// CHECK-SAME: (%[[X:.+]]: tensor<2x3x4xf32>)
func.func @transpose_of_transpose(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %1 = "stepwell.transpose"(%0) {permutation = array<i64: 2, 0, 1>} : (tensor<3x4x2xf32>) -> tensor<2x3x4xf32>
  // CHECK-NEXT: return %[[X]]
  return %1 : tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @transpose_of_unit_dims
func.func @transpose_of_unit_dims(%x: tensor<2x8x1x1xf32>) -> tensor<2x1x1x8xf32> {
  // CHECK-NEXT: "stepwell.reshape"(%{{.+}}) {shape = array<i64: 2, 1, 1, 8>}
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x8x1x1xf32>) -> tensor<2x1x1x8xf32>
  return %0 : tensor<2x1x1x8xf32>
}

// CHECK-LABEL: func.func @negative_transpose
func.func @negative_transpose(%x: tensor<2x8x1x3xf32>) -> tensor<2x1x3x8xf32> {
  // CHECK-NEXT: stepwell.transpose
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x8x1x3xf32>) -> tensor<2x1x3x8xf32>
  return %0 : tensor<2x1x3x8xf32>
}

// CHECK-LABEL: func.func @slice_of_slice
func.func @slice_of_slice(%x: tensor<20xf32>) -> tensor<2xf32> {
  %0 = "stepwell.slice"(%x) {starts = array<i64: 2>, stops = array<i64: 18>, steps = array<i64: 2>} : (tensor<20xf32>) -> tensor<8xf32>
  // CHECK-NEXT: "stepwell.slice"(%{{.+}}) {starts = array<i64: 4>, steps = array<i64: 6>, stops = array<i64: 11>}
  // CHECK-NEXT: return
  %1 = "stepwell.slice"(%0) {starts = array<i64: 1>, stops = array<i64: 5>, steps = array<i64: 3>} : (tensor<8xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// CHECK-LABEL: func.func @slice_of_concat
// CHECK-SAME: (%{{.+}}: tensor<4xf32>, %[[Y:.+]]: tensor<6xf32>)
func.func @slice_of_concat(%x: tensor<4xf32>, %y: tensor<6xf32>) -> tensor<3xf32> {
  %0 = "stepwell.concat"(%x, %y) {axis = 0 : i64} : (tensor<4xf32>, tensor<6xf32>) -> tensor<10xf32>
  // CHECK-NEXT: "stepwell.slice"(%[[Y]]) {starts = array<i64: 1>, steps = array<i64: 1>, stops = array<i64: 4>}
  %1 = "stepwell.slice"(%0) {starts = array<i64: 5>, stops = array<i64: 8>, steps = array<i64: 1>} : (tensor<10xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}

// CHECK-LABEL: func.func @negative_slice_of_both
func.func @negative_slice_of_both(%x: tensor<4xf32>, %y: tensor<6xf32>) -> tensor<3xf32> {
  // CHECK-NEXT: stepwell.concat
  %0 = "stepwell.concat"(%x, %y) {axis = 0 : i64} : (tensor<4xf32>, tensor<6xf32>) -> tensor<10xf32>
  %1 = "stepwell.slice"(%0) {starts = array<i64: 3>, stops = array<i64: 6>, steps = array<i64: 1>} : (tensor<10xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}

// CHECK-LABEL: func.func @concat_of_slices
// CHECK-SAME: (%[[X:.+]]: tensor<4x6xf32>)
func.func @concat_of_slices(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = "stepwell.slice"(%x) {starts = array<i64: 0, 0>, stops = array<i64: 4, 2>, steps = array<i64: 1, 1>} : (tensor<4x6xf32>) -> tensor<4x2xf32>
  %1 = "stepwell.slice"(%x) {starts = array<i64: 0, 2>, stops = array<i64: 4, 6>, steps = array<i64: 1, 1>} : (tensor<4x6xf32>) -> tensor<4x4xf32>
  %2 = "stepwell.concat"(%0, %1) {axis = 1 : i64} : (tensor<4x2xf32>, tensor<4x4xf32>) -> tensor<4x6xf32>
  // CHECK-NEXT: return %[[X]]
  return %2 : tensor<4x6xf32>
}

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
