// RUN: stepwell-opt %s --stepwell-pack-weights="machine=x86-64-v4 in-kernels=true" --split-input-file | FileCheck %s

// The kernel packs a panel at a time; there may be columns left over.
// CHECK-LABEL: func.func @transposed
// CHECK-SAME: (%[[X:.+]]: tensor<20x8xf32>, %[[Y:.+]]: tensor<67x8xf32>)
func.func @transposed(%x: tensor<20x8xf32>, %y: tensor<67x8xf32>) -> tensor<20x67xf32> {
  // CHECK: %[[FLAT:.+]] = "stepwell.reshape"(%[[Y]]) {shape = array<i64: 536>}
  // CHECK: "stepwell.packed_matmul"(%[[X]], %[[FLAT]]) {batch = 1 : i64, columns = 67 : i64, panel = 48 : i64, stored = "columns"}
  %0 = "stepwell.matmul"(%x, %y) {transpose_rhs = true} : (tensor<20x8xf32>, tensor<67x8xf32>) -> tensor<20x67xf32>
  return %0 : tensor<20x67xf32>
}

// -----

// CHECK-LABEL: func.func @batch
// CHECK: "stepwell.packed_matmul"(%{{.+}}, %{{.+}}) {batch = 2 : i64, columns = 64 : i64, panel = 32 : i64, stored = "columns"}
func.func @batch(%x: tensor<2x20x8xf32>, %y: tensor<2x64x8xf32>) -> tensor<2x20x64xf32> {
  %0 = "stepwell.matmul"(%x, %y) {transpose_rhs = true} : (tensor<2x20x8xf32>, tensor<2x64x8xf32>) -> tensor<2x20x64xf32>
  return %0 : tensor<2x20x64xf32>
}

// -----

// Rows that do not stay in the cache are multiplied in parts, each of which would pack all panels again.
// CHECK-LABEL: func.func @negative_many_rows
// CHECK: "stepwell.transpose"
// CHECK-NOT: stored
func.func @negative_many_rows(%x: tensor<4096x512xf32>, %y: tensor<64x512xf32>) -> tensor<4096x64xf32> {
  %0 = "stepwell.matmul"(%x, %y) {transpose_rhs = true} : (tensor<4096x512xf32>, tensor<64x512xf32>) -> tensor<4096x64xf32>
  return %0 : tensor<4096x64xf32>
}

// -----

// A parameter is packed once.
// CHECK-LABEL: func.func @negative_parameter
// CHECK: "stepwell.transpose"
// CHECK-NOT: stored
func.func @negative_parameter(%x: tensor<20x8xf32>) -> tensor<20x64xf32> {
  %w = "stepwell.parameter"() {dtype = f32, name = "w", shape = array<i64: 64, 8>} : () -> tensor<64x8xf32>
  %0 = "stepwell.matmul"(%x, %w) {transpose_rhs = true} : (tensor<20x8xf32>, tensor<64x8xf32>) -> tensor<20x64xf32>
  return %0 : tensor<20x64xf32>
}

// -----

// Rows of adjacent columns are read in place.
// CHECK-LABEL: func.func @negative_not_transposed
// CHECK: "stepwell.matmul"
func.func @negative_not_transposed(%x: tensor<20x8xf32>, %y: tensor<8x64xf32>) -> tensor<20x64xf32> {
  %0 = "stepwell.matmul"(%x, %y) : (tensor<20x8xf32>, tensor<8x64xf32>) -> tensor<20x64xf32>
  return %0 : tensor<20x64xf32>
}

// -----

// Two products, as those of steps of a recurrent layer: packed once for both.
// CHECK-LABEL: func.func @negative_shared
// CHECK-SAME: (%[[X:.+]]: tensor<20x8xf32>, %{{.+}}, %[[Y:.+]]: tensor<64x8xf32>)
// CHECK: "stepwell.transpose"
// CHECK-NOT: stored
func.func @negative_shared(%x: tensor<20x8xf32>, %z: tensor<20x8xf32>, %y: tensor<64x8xf32>) -> (tensor<20x64xf32>, tensor<20x64xf32>) {
  %0 = "stepwell.matmul"(%x, %y) {transpose_rhs = true} : (tensor<20x8xf32>, tensor<64x8xf32>) -> tensor<20x64xf32>
  %1 = "stepwell.matmul"(%z, %y) {transpose_rhs = true} : (tensor<20x8xf32>, tensor<64x8xf32>) -> tensor<20x64xf32>
  return %0, %1 : tensor<20x64xf32>, tensor<20x64xf32>
}
