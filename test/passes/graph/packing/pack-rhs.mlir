// RUN: stepwell-opt %s --stepwell-pack-weights=machine=x86-64-v4 --split-input-file | FileCheck %s

// A transposed right-hand side is always rearranged: into panels, one weight per batch element.
// CHECK-LABEL: func.func @matmul_of_two
// CHECK-SAME: (%[[X:.+]]: tensor<2x20x8xf32>, %[[Y:.+]]: tensor<2x64x8xf32>)
func.func @matmul_of_two(%x: tensor<2x20x8xf32>, %y: tensor<2x64x8xf32>) -> tensor<2x20x64xf32> {
  // CHECK: %[[S:.+]] = "stepwell.reshape"(%[[Y]]) {shape = array<i64: 2, 2, 32, 8>}
  // CHECK: %[[T:.+]] = "stepwell.transpose"(%[[S]]) {permutation = array<i64: 0, 1, 3, 2>}
  // CHECK: %[[P:.+]] = "stepwell.reshape"(%[[T]]) {shape = array<i64: 1024>}
  // CHECK: "stepwell.packed_matmul"(%[[X]], %[[P]]) {batch = 2 : i64, columns = 64 : i64, panel = 32 : i64}
  %0 = "stepwell.matmul"(%x, %y) {transpose_rhs = true} : (tensor<2x20x8xf32>, tensor<2x64x8xf32>) -> tensor<2x20x64xf32>
  return %0 : tensor<2x20x64xf32>
}

// -----

// Many rows of four KiB evict each other from the cache, so they are packed; a few rows all stay in it.
// CHECK-LABEL: func.func @matmul_of_far_rows
// CHECK: "stepwell.packed_matmul"
// CHECK: "stepwell.matmul"
func.func @matmul_of_far_rows(%x: tensor<64x512xf32>, %y: tensor<512x1024xf32>, %z: tensor<64x64xf32>, %t: tensor<64x1024xf32>)
    -> (tensor<64x1024xf32>, tensor<64x1024xf32>) {
  %0 = "stepwell.matmul"(%x, %y) : (tensor<64x512xf32>, tensor<512x1024xf32>) -> tensor<64x1024xf32>
  %1 = "stepwell.matmul"(%z, %t) : (tensor<64x64xf32>, tensor<64x1024xf32>) -> tensor<64x1024xf32>
  return %0, %1 : tensor<64x1024xf32>, tensor<64x1024xf32>
}

// -----

// A row of two KiB is half a page; with many rows on the other side, packing pays off.
// CHECK-LABEL: func.func @matmul_of_many_pages
// CHECK: "stepwell.packed_matmul"
// CHECK: "stepwell.matmul"
func.func @matmul_of_many_pages(%x: tensor<128x64xf32>, %y: tensor<64x512xf32>, %z: tensor<64x64xf32>)
    -> (tensor<128x512xf32>, tensor<64x512xf32>) {
  %0 = "stepwell.matmul"(%x, %y) : (tensor<128x64xf32>, tensor<64x512xf32>) -> tensor<128x512xf32>
  %1 = "stepwell.matmul"(%z, %y) : (tensor<64x64xf32>, tensor<64x512xf32>) -> tensor<64x512xf32>
  return %0, %1 : tensor<128x512xf32>, tensor<64x512xf32>
}

// -----

// A part of a panel would be left over.
// CHECK-LABEL: func.func @negative_part_of_a_panel
// CHECK: %[[T:.+]] = "stepwell.transpose"(%{{.+}}) {permutation = array<i64: 1, 0>}
// CHECK: "stepwell.matmul"(%{{.+}}, %[[T]])
func.func @negative_part_of_a_panel(%x: tensor<20x8xf32>, %y: tensor<67x8xf32>) -> tensor<20x67xf32> {
  %0 = "stepwell.matmul"(%x, %y) {transpose_rhs = true} : (tensor<20x8xf32>, tensor<67x8xf32>) -> tensor<20x67xf32>
  return %0 : tensor<20x67xf32>
}

// -----

// With a few rows on the left, copying the right operand takes longer than multiplying.
// CHECK-LABEL: func.func @negative_few_rows
// CHECK-NOT: stepwell.packed_matmul
// CHECK: stepwell.matmul
func.func @negative_few_rows(%x: tensor<4x512xf32>, %y: tensor<512x1024xf32>) -> tensor<4x1024xf32> {
  %0 = "stepwell.matmul"(%x, %y) : (tensor<4x512xf32>, tensor<512x1024xf32>) -> tensor<4x1024xf32>
  return %0 : tensor<4x1024xf32>
}

// -----

// The kernel of packed products reads rows of the left operand.
// CHECK-LABEL: func.func @negative_left_is_transposed
// CHECK-NOT: stepwell.packed_matmul
// CHECK: stepwell.matmul
func.func @negative_left_is_transposed(%x: tensor<512x64xf32>, %y: tensor<512x1024xf32>) -> tensor<64x1024xf32> {
  %0 = "stepwell.matmul"(%x, %y) {transpose_lhs = true} : (tensor<512x64xf32>, tensor<512x1024xf32>) -> tensor<64x1024xf32>
  return %0 : tensor<64x1024xf32>
}

// -----

// Each batch of the left operand meets both of the right one.
// CHECK-LABEL: func.func @negative_batches_broadcast
// CHECK-NOT: stepwell.packed_matmul
// CHECK: %[[T:.+]] = "stepwell.transpose"(%{{.+}}) {permutation = array<i64: 0, 1, 3, 2>}
// CHECK: "stepwell.matmul"(%{{.+}}, %[[T]])
func.func @negative_batches_broadcast(%x: tensor<2x1x20x8xf32>, %y: tensor<1x2x64x8xf32>) -> tensor<2x2x20x64xf32> {
  %0 = "stepwell.matmul"(%x, %y) {transpose_rhs = true} : (tensor<2x1x20x8xf32>, tensor<1x2x64x8xf32>) -> tensor<2x2x20x64xf32>
  return %0 : tensor<2x2x20x64xf32>
}

// -----

// Panels have a known number of columns.
// CHECK-LABEL: func.func @negative_unknown_columns
// CHECK-NEXT: "stepwell.matmul"(%{{.+}}) {{.*}}transpose_rhs = true
func.func @negative_unknown_columns(%x: tensor<20x8xf32>, %y: tensor<?x8xf32>) -> tensor<20x?xf32> {
  %0 = "stepwell.matmul"(%x, %y) {transpose_rhs = true} : (tensor<20x8xf32>, tensor<?x8xf32>) -> tensor<20x?xf32>
  return %0 : tensor<20x?xf32>
}
