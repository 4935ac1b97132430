// RUN: stepwell-opt %s --split-input-file --stepwell-form-kernels | FileCheck %s

// Of a table no more is read than comes out: 4 rows of 8 numbers, 4 indices of 8 bytes, and 4 rows written.
// CHECK: stepwell.kernel = {bytes = 288 : i64
func.func @main(%table: tensor<1000x8xf32>, %rows: tensor<4xi64>) -> tensor<4x8xf32> {
  %0 = "stepwell.gather"(%table, %rows) {axis = 0 : i64} : (tensor<1000x8xf32>, tensor<4xi64>) -> tensor<4x8xf32> loc("Gather_0")
  return %0 : tensor<4x8xf32>
}

// -----

// Of what is sliced only the slice: 2 rows of 10 numbers, read and written.
// CHECK: stepwell.kernel = {bytes = 160 : i64
func.func @main(%x: tensor<20x10xf32>) -> tensor<2x10xf32> {
  %0 = "stepwell.slice"(%x) {starts = array<i64: 0, 0>, stops = array<i64: 2, 10>, steps = array<i64: 1, 1>} : (tensor<20x10xf32>) -> tensor<2x10xf32> loc("Slice_0")
  %1 = "stepwell.relu"(%0) : (tensor<2x10xf32>) -> tensor<2x10xf32> loc("Relu_1")
  return %1 : tensor<2x10xf32>
}

// -----

// What is read in full counts in full: the sliced row is read in one kernel, all rows in the other.
// CHECK: stepwell.kernel = {bytes = 80 : i64
// CHECK: stepwell.kernel = {bytes = 1640 : i64
func.func @main(%x: tensor<20x10xf32>) -> tensor<20x10xf32> {
  %0 = "stepwell.slice"(%x) {starts = array<i64: 0, 0>, stops = array<i64: 1, 10>, steps = array<i64: 1, 1>} : (tensor<20x10xf32>) -> tensor<1x10xf32> loc("Slice_0")
  %1 = "stepwell.mul"(%x, %0) : (tensor<20x10xf32>, tensor<1x10xf32>) -> tensor<20x10xf32> loc("Mul_1")
  return %1 : tensor<20x10xf32>
}
