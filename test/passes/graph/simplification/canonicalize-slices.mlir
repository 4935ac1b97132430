// RUN: stepwell-opt %s --stepwell-canonicalize | FileCheck %s

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

// The part that the second slice takes of the first one is empty, and stays within it.
// CHECK-LABEL: func.func @empty_slice_of_slice
func.func @empty_slice_of_slice(%x: tensor<20xf32>) -> tensor<0xf32> {
  %0 = "stepwell.slice"(%x) {starts = array<i64: 2>, stops = array<i64: 19>, steps = array<i64: 4>} : (tensor<20xf32>) -> tensor<5xf32>
  // CHECK-NEXT: "stepwell.slice"(%{{.+}}) {starts = array<i64: 14>, steps = array<i64: 4>, stops = array<i64: 14>}
  // CHECK-NEXT: return
  %1 = "stepwell.slice"(%0) {starts = array<i64: 3>, stops = array<i64: 3>, steps = array<i64: 1>} : (tensor<5xf32>) -> tensor<0xf32>
  return %1 : tensor<0xf32>
}

// CHECK-LABEL: func.func @slice_of_left
// CHECK-SAME: (%[[X:.+]]: tensor<4xf32>, %{{.+}}: tensor<6xf32>)
func.func @slice_of_left(%x: tensor<4xf32>, %y: tensor<6xf32>) -> tensor<2xf32> {
  %0 = "stepwell.concat"(%x, %y) {axis = 0 : i64} : (tensor<4xf32>, tensor<6xf32>) -> tensor<10xf32>
  // CHECK-NEXT: "stepwell.slice"(%[[X]]) {starts = array<i64: 2>, steps = array<i64: 1>, stops = array<i64: 4>}
  %1 = "stepwell.slice"(%0) {starts = array<i64: 2>, stops = array<i64: 4>, steps = array<i64: 1>} : (tensor<10xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// Where the second operand begins is not known.
// CHECK-LABEL: func.func @negative_slice_after_unknown_extent
func.func @negative_slice_after_unknown_extent(%x: tensor<?xf32>, %y: tensor<6xf32>) -> tensor<3xf32> {
  // CHECK-NEXT: stepwell.concat
  %0 = "stepwell.concat"(%x, %y) {axis = 0 : i64} : (tensor<?xf32>, tensor<6xf32>) -> tensor<?xf32>
  %1 = "stepwell.slice"(%0) {starts = array<i64: 5>, stops = array<i64: 8>, steps = array<i64: 1>} : (tensor<?xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}

// CHECK-LABEL: func.func @negative_concat_in_other_order
func.func @negative_concat_in_other_order(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: stepwell.concat
  %0 = "stepwell.slice"(%x) {starts = array<i64: 2>, stops = array<i64: 4>, steps = array<i64: 1>} : (tensor<4xf32>) -> tensor<2xf32>
  %1 = "stepwell.slice"(%x) {starts = array<i64: 0>, stops = array<i64: 2>, steps = array<i64: 1>} : (tensor<4xf32>) -> tensor<2xf32>
  %2 = "stepwell.concat"(%0, %1) {axis = 0 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// CHECK-LABEL: func.func @negative_concat_with_steps
func.func @negative_concat_with_steps(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: stepwell.concat
  %0 = "stepwell.slice"(%x) {starts = array<i64: 0>, stops = array<i64: 7>, steps = array<i64: 1>} : (tensor<8xf32>) -> tensor<7xf32>
  %1 = "stepwell.slice"(%x) {starts = array<i64: 7>, stops = array<i64: 8>, steps = array<i64: 2>} : (tensor<8xf32>) -> tensor<1xf32>
  %2 = "stepwell.concat"(%0, %1) {axis = 0 : i64} : (tensor<7xf32>, tensor<1xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// CHECK-LABEL: func.func @negative_concat_of_other_tensors
func.func @negative_concat_of_other_tensors(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: stepwell.concat
  %0 = "stepwell.slice"(%x) {starts = array<i64: 0>, stops = array<i64: 2>, steps = array<i64: 1>} : (tensor<4xf32>) -> tensor<2xf32>
  %1 = "stepwell.slice"(%y) {starts = array<i64: 2>, stops = array<i64: 4>, steps = array<i64: 1>} : (tensor<4xf32>) -> tensor<2xf32>
  %2 = "stepwell.concat"(%0, %1) {axis = 0 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// The second slice takes other rows.
// CHECK-LABEL: func.func @negative_concat_of_other_rows
func.func @negative_concat_of_other_rows(%x: tensor<4x4xf32>) -> tensor<2x4xf32> {
  // CHECK: stepwell.concat
  %0 = "stepwell.slice"(%x) {starts = array<i64: 0, 0>, stops = array<i64: 2, 2>, steps = array<i64: 1, 1>} : (tensor<4x4xf32>) -> tensor<2x2xf32>
  %1 = "stepwell.slice"(%x) {starts = array<i64: 2, 2>, stops = array<i64: 4, 4>, steps = array<i64: 1, 1>} : (tensor<4x4xf32>) -> tensor<2x2xf32>
  %2 = "stepwell.concat"(%0, %1) {axis = 1 : i64} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @concat_of_nothing
// CHECK-SAME: (%[[X:.+]]: tensor<4xf32>, %{{.+}}: tensor<0xf32>)
func.func @concat_of_nothing(%x: tensor<4xf32>, %y: tensor<0xf32>) -> tensor<4xf32> {
  %0 = "stepwell.concat"(%x, %y) {axis = 0 : i64} : (tensor<4xf32>, tensor<0xf32>) -> tensor<4xf32>
  %1 = "stepwell.concat"(%y, %0) {axis = 0 : i64} : (tensor<0xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: return %[[X]]
  return %1 : tensor<4xf32>
}

// Both are empty, but along another dimension: the result has 4 columns.
// CHECK-LABEL: func.func @negative_concat_of_empty_rows
func.func @negative_concat_of_empty_rows(%x: tensor<0x2xf32>, %y: tensor<0x2xf32>) -> tensor<0x4xf32> {
  // CHECK-NEXT: stepwell.concat
  %0 = "stepwell.concat"(%x, %y) {axis = 1 : i64} : (tensor<0x2xf32>, tensor<0x2xf32>) -> tensor<0x4xf32>
  return %0 : tensor<0x4xf32>
}
