// RUN: stepwell-opt %s --split-input-file --stepwell-form-kernels | FileCheck %s

// A table is read only as far as the result: 4 rows of 8 numbers, 4 indices of 8 bytes, and 4 rows written.
// CHECK: stepwell.kernel = {bytes = 288 : i64
func.func @main(%table: tensor<1000x8xf32>, %rows: tensor<4xi64>) -> tensor<4x8xf32> {
  %0 = "stepwell.gather"(%table, %rows) {axis = 0 : i64} : (tensor<1000x8xf32>, tensor<4xi64>) -> tensor<4x8xf32> loc("Gather_0")
  return %0 : tensor<4x8xf32>
}

// -----

// Only the slice of a sliced tensor counts: 2 rows of 10 numbers, read and written.
// CHECK: stepwell.kernel = {bytes = 160 : i64
func.func @main(%x: tensor<20x10xf32>) -> tensor<2x10xf32> {
  %0 = "stepwell.slice"(%x) {starts = array<i64: 0, 0>, stops = array<i64: 2, 10>, steps = array<i64: 1, 1>} : (tensor<20x10xf32>) -> tensor<2x10xf32> loc("Slice_0")
  %1 = "stepwell.relu"(%0) : (tensor<2x10xf32>) -> tensor<2x10xf32> loc("Relu_1")
  return %1 : tensor<2x10xf32>
}

// -----

// A tensor that is read completely counts in full: one kernel reads the sliced row, the other all rows.
// CHECK: stepwell.kernel = {bytes = 80 : i64
// CHECK: stepwell.kernel = {bytes = 1640 : i64
func.func @main(%x: tensor<20x10xf32>) -> tensor<20x10xf32> {
  %0 = "stepwell.slice"(%x) {starts = array<i64: 0, 0>, stops = array<i64: 1, 10>, steps = array<i64: 1, 1>} : (tensor<20x10xf32>) -> tensor<1x10xf32> loc("Slice_0")
  %1 = "stepwell.mul"(%x, %0) : (tensor<20x10xf32>, tensor<1x10xf32>) -> tensor<20x10xf32> loc("Mul_1")
  return %1 : tensor<20x10xf32>
}

// -----

// A border writes only the elements outside, here 2 * 8 + 4 * 2 numbers; another kernel makes those inside.
// CHECK: stepwell.kernel = {bytes = 96 : i64, class = "movement"
func.func @main() -> tensor<6x8xf32> {
  %0 = "stepwell.border"() {shape = array<i64: 6, 8>, low = array<i64: 1, 1>, high = array<i64: 1, 1>, value = dense<0.0> : tensor<f32>} : () -> tensor<6x8xf32> loc("Pad_0")
  return %0 : tensor<6x8xf32>
}

// -----

// If windows skip elements of an image, only covered ones are read: 16 of 64 pixels of 4 numbers, and 16 written.
// CHECK: stepwell.kernel = {bytes = 512 : i64
func.func @main(%x: tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32> {
  %0 = "stepwell.max_pool"(%x) {kernel = array<i64: 1, 1>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false, layout = "channels_last"} : (tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32> loc("Pool_0")
  return %0 : tensor<1x4x4x4xf32>
}

// -----

// Overlapping windows cover all elements: 64 pixels read, 16 written.
// CHECK: stepwell.kernel = {bytes = 1280 : i64
func.func @main(%x: tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32> {
  %0 = "stepwell.max_pool"(%x) {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 1, 1>, dilations = array<i64: 1, 1>, ceil_mode = false, layout = "channels_last"} : (tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32> loc("Pool_0")
  return %0 : tensor<1x4x4x4xf32>
}

// -----

// An image is reduced by its nearest elements: 16 numbers read and 16 written.
// CHECK: stepwell.kernel = {bytes = 128 : i64
func.func @main(%x: tensor<1x1x8x8xf32>) -> tensor<1x1x4x4xf32> {
  %0 = "stepwell.resize"(%x) {sizes = array<i64: 1, 1, 4, 4>, scales = dense<[1.0, 1.0, 0.5, 0.5]> : tensor<4xf32>, mode = "nearest", coordinates = "asymmetric", nearest = "floor"} : (tensor<1x1x8x8xf32>) -> tensor<1x1x4x4xf32> loc("Resize_0")
  return %0 : tensor<1x1x4x4xf32>
}

// -----

// Sums of products of bytes are added to dequantised bytes, which the same kernel reads: they take a quarter of the
// floats. Floats that other floats are computed from have a kernel of their own.
// CHECK: stepwell.ops = ["Exp_1"]
// CHECK: stepwell.ops = ["MatMul_0", "MatMul_0", "Dequantize_1", "Dequantize_1", "Add_2", "Add_2"]
func.func @main(%x: tensor<8x16xui8>, %w: tensor<256xi8>, %y: tensor<8x16xui8>, %z: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 16 : i64, panel = 16 : i64} : (tensor<8x16xui8>, tensor<256xi8>) -> tensor<8x16xi32> loc("MatMul_0")
  %1 = "stepwell.cast"(%0) {dtype = f32} : (tensor<8x16xi32>) -> tensor<8x16xf32> loc("MatMul_0")
  %2 = "stepwell.cast"(%y) {dtype = f32} : (tensor<8x16xui8>) -> tensor<8x16xf32> loc("Dequantize_1")
  %scale = "stepwell.constant"() {value = dense<0.1> : tensor<f32>} : () -> tensor<f32>
  %3 = "stepwell.mul"(%2, %scale) : (tensor<8x16xf32>, tensor<f32>) -> tensor<8x16xf32> loc("Dequantize_1")
  %4 = "stepwell.add"(%1, %3) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> loc("Add_2")
  %5 = "stepwell.exp"(%z) : (tensor<8x16xf32>) -> tensor<8x16xf32> loc("Exp_1")
  %6 = "stepwell.add"(%4, %5) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> loc("Add_2")
  return %6 : tensor<8x16xf32>
}
