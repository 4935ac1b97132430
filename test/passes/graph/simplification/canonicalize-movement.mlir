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

// CHECK-LABEL: func.func @identities
// CHECK-SAME: (%[[X:.+]]: tensor<2x3x1xf32>)
func.func @identities(%x: tensor<2x3x1xf32>) -> tensor<2x3x1xf32> {
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 0, 1, 2>} : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %1 = "stepwell.reverse"(%0) {axes = array<i64: 2>} : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %2 = "stepwell.pad"(%1) {low = array<i64: 0, 0, 0>, high = array<i64: 0, 0, 0>} : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %3 = "stepwell.tile"(%2) {repeats = array<i64: 1, 1, 1>} : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %4 = "stepwell.broadcast_to"(%3) {shape = array<i64: 2, 3, 1>} : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  // CHECK-NEXT: return %[[X]]
  return %4 : tensor<2x3x1xf32>
}

// Square tensors keep their types, although the elements move.
// CHECK-LABEL: func.func @negative_square_transpose
func.func @negative_square_transpose(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  // CHECK-NEXT: stepwell.transpose
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}

// CHECK-LABEL: func.func @negative_reverse
func.func @negative_reverse(%x: tensor<2x1xf32>) -> tensor<2x1xf32> {
  // CHECK-NEXT: stepwell.reverse
  %0 = "stepwell.reverse"(%x) {axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x1xf32>
  return %0 : tensor<2x1xf32>
}

// CHECK-LABEL: func.func @resize_by_one
// CHECK-SAME: (%[[X:.+]]: tensor<1x2x4x4xf32>)
func.func @resize_by_one(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  // CHECK-NEXT: return %[[X]]
  %0 = "stepwell.resize"(%x) {sizes = array<i64: 1, 2, 4, 4>, scales = dense<1.0> : tensor<4xf32>, mode = "cubic"} : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  return %0 : tensor<1x2x4x4xf32>
}

// The positions between which it interpolates are those of the scale, although the extent is rounded to the same one.
// CHECK-LABEL: func.func @negative_resize_to_same_size
func.func @negative_resize_to_same_size(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  // CHECK-NEXT: stepwell.resize
  %0 = "stepwell.resize"(%x) {sizes = array<i64: 1, 2, 4, 4>, scales = dense<[1.0, 1.0, 1.125, 1.0]> : tensor<4xf32>, mode = "linear"} : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  return %0 : tensor<1x2x4x4xf32>
}

// The types are equal, but the shapes may differ.
// CHECK-LABEL: func.func @negative_slice_of_unknown_shape
func.func @negative_slice_of_unknown_shape(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  // CHECK-NEXT: stepwell.slice
  %0 = "stepwell.slice"(%x) {starts = array<i64: 1, 0>, stops = array<i64: 3, 4>, steps = array<i64: 1, 1>} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// CHECK-LABEL: func.func @reshape_of_reshape
// CHECK-SAME: (%[[X:.+]]: tensor<4x6xf32>)
func.func @reshape_of_reshape(%x: tensor<4x6xf32>) -> tensor<3x8xf32> {
  %0 = "stepwell.reshape"(%x) {shape = array<i64: 24>} : (tensor<4x6xf32>) -> tensor<24xf32>
  // CHECK-NEXT: "stepwell.reshape"(%[[X]]) {shape = array<i64: 3, 8>}
  %1 = "stepwell.reshape"(%0) {shape = array<i64: 3, 8>} : (tensor<24xf32>) -> tensor<3x8xf32>
  return %1 : tensor<3x8xf32>
}

// CHECK-LABEL: func.func @negative_reshape_of_transpose
func.func @negative_reshape_of_transpose(%x: tensor<4x6xf32>) -> tensor<24xf32> {
  // CHECK-NEXT: stepwell.transpose
  // CHECK-NEXT: stepwell.reshape
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %1 = "stepwell.reshape"(%0) {shape = array<i64: 24>} : (tensor<6x4xf32>) -> tensor<24xf32>
  return %1 : tensor<24xf32>
}

// CHECK-LABEL: func.func @tile_of_units
func.func @tile_of_units(%x: tensor<4x1xf32>) -> tensor<4x3xf32> {
  // CHECK-NEXT: "stepwell.broadcast_to"(%{{.+}}) {shape = array<i64: 4, 3>}
  %0 = "stepwell.tile"(%x) {repeats = array<i64: 1, 3>} : (tensor<4x1xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// CHECK-LABEL: func.func @negative_tile
func.func @negative_tile(%x: tensor<4x1xf32>) -> tensor<8x3xf32> {
  // CHECK-NEXT: stepwell.tile
  %0 = "stepwell.tile"(%x) {repeats = array<i64: 2, 3>} : (tensor<4x1xf32>) -> tensor<8x3xf32>
  return %0 : tensor<8x3xf32>
}

// CHECK-LABEL: func.func @broadcast_of_units
func.func @broadcast_of_units(%x: tensor<4xf32>) -> tensor<1x1x4xf32> {
  // CHECK-NEXT: "stepwell.reshape"(%{{.+}}) {shape = array<i64: 1, 1, 4>}
  %0 = "stepwell.broadcast_to"(%x) {shape = array<i64: 1, 1, 4>} : (tensor<4xf32>) -> tensor<1x1x4xf32>
  return %0 : tensor<1x1x4xf32>
}

// CHECK-LABEL: func.func @negative_broadcast
func.func @negative_broadcast(%x: tensor<4xf32>) -> tensor<2x4xf32> {
  // CHECK-NEXT: stepwell.broadcast_to
  %0 = "stepwell.broadcast_to"(%x) {shape = array<i64: 2, 4>} : (tensor<4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
