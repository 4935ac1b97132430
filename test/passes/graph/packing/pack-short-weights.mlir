// RUN: stepwell-opt %s --split-input-file --stepwell-pack-weights='machine=x86-64-v4' | FileCheck %s
// RUN: stepwell-opt %s --split-input-file --stepwell-pack-weights='machine=x86-64-v2' | FileCheck %s --check-prefix=OLD

// With few rows, a weight of short floats is converted in the product.

// CHECK-LABEL: func @few_rows
// CHECK:         "stepwell.packed_matmul"(%arg0, %{{.*}}) {columns = 64 : i64, keeps_sums = true, panel =
// CHECK-SAME:      (tensor<2x8xf32>, tensor<512xbf16>) -> tensor<2x64xf32>
func.func @few_rows(%x: tensor<2x8xf32>) -> tensor<2x64xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 8, 64>, dtype = bf16} : () -> tensor<8x64xbf16>
  %0 = "stepwell.cast"(%w) {dtype = f32} : (tensor<8x64xbf16>) -> tensor<8x64xf32>
  %1 = "stepwell.matmul"(%x, %0) : (tensor<2x8xf32>, tensor<8x64xf32>) -> tensor<2x64xf32>
  return %1 : tensor<2x64xf32>
}

// -----

// f16 too, but for machines without instructions that convert it.

// CHECK-LABEL: func @half
// CHECK:         (tensor<2x8xf32>, tensor<512xf16>) -> tensor<2x64xf32>
// OLD-LABEL:   func @half
// OLD:           (tensor<2x8xf32>, tensor<512xf32>) -> tensor<2x64xf32>
func.func @half(%x: tensor<2x8xf32>) -> tensor<2x64xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 64, 8>, dtype = f16} : () -> tensor<64x8xf16>
  %0 = "stepwell.cast"(%w) {dtype = f32} : (tensor<64x8xf16>) -> tensor<64x8xf32>
  %1 = "stepwell.matmul"(%x, %0) {transpose_rhs = true} : (tensor<2x8xf32>, tensor<64x8xf32>) -> tensor<2x64xf32>
  return %1 : tensor<2x64xf32>
}

// -----

// The conversion may be before a transpose, a reshape or a concatenation.

// CHECK-LABEL: func @moved
// CHECK:         (tensor<2x8xf32>, tensor<512xbf16>) -> tensor<2x64xf32>
func.func @moved(%x: tensor<2x8xf32>) -> tensor<2x64xf32> {
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 32, 8>, dtype = bf16} : () -> tensor<32x8xbf16>
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 256>, dtype = bf16} : () -> tensor<256xbf16>
  %0 = "stepwell.cast"(%v) {dtype = f32} : (tensor<32x8xbf16>) -> tensor<32x8xf32>
  %1 = "stepwell.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<32x8xf32>) -> tensor<8x32xf32>
  %2 = "stepwell.cast"(%w) {dtype = f32} : (tensor<256xbf16>) -> tensor<256xf32>
  %3 = "stepwell.reshape"(%2) {shape = array<i64: 8, 32>} : (tensor<256xf32>) -> tensor<8x32xf32>
  %4 = "stepwell.concat"(%1, %3) {axis = 1 : i64} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x64xf32>
  %5 = "stepwell.matmul"(%x, %4) : (tensor<2x8xf32>, tensor<8x64xf32>) -> tensor<2x64xf32>
  return %5 : tensor<2x64xf32>
}

// -----

// Parts of different types are converted at compile time.

// CHECK-LABEL: func @mixed
// CHECK:         (tensor<2x8xf32>, tensor<512xf32>) -> tensor<2x64xf32>
func.func @mixed(%x: tensor<2x8xf32>) -> tensor<2x64xf32> {
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 8, 32>, dtype = bf16} : () -> tensor<8x32xbf16>
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 8, 32>, dtype = f16} : () -> tensor<8x32xf16>
  %0 = "stepwell.cast"(%v) {dtype = f32} : (tensor<8x32xbf16>) -> tensor<8x32xf32>
  %1 = "stepwell.cast"(%w) {dtype = f32} : (tensor<8x32xf16>) -> tensor<8x32xf32>
  %2 = "stepwell.concat"(%0, %1) {axis = 1 : i64} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x64xf32>
  %3 = "stepwell.matmul"(%x, %2) : (tensor<2x8xf32>, tensor<8x64xf32>) -> tensor<2x64xf32>
  return %3 : tensor<2x64xf32>
}

// -----

// With many rows, the conversion in the product would take longer than it saves.

// CHECK-LABEL: func @many_rows
// CHECK:         (tensor<9x8xf32>, tensor<512xf32>) -> tensor<9x64xf32>
func.func @many_rows(%x: tensor<9x8xf32>) -> tensor<9x64xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 8, 64>, dtype = bf16} : () -> tensor<8x64xbf16>
  %0 = "stepwell.cast"(%w) {dtype = f32} : (tensor<8x64xbf16>) -> tensor<8x64xf32>
  %1 = "stepwell.matmul"(%x, %0) : (tensor<9x8xf32>, tensor<8x64xf32>) -> tensor<9x64xf32>
  return %1 : tensor<9x64xf32>
}

// -----

// Programs for ranges share their weights, and keep them short for any number of rows.

module attributes {stepwell.table = ["\"n\""], stepwell.ranges = {n = [1, 64, 1]}} {
  // CHECK-LABEL: func @range
  // CHECK:         (tensor<64x8xf32>, tensor<512xbf16>) -> tensor<64x64xf32>
  func.func @range(%x: tensor<64x8xf32>) -> tensor<64x64xf32> {
    %w = "stepwell.parameter"() {name = "w", shape = array<i64: 8, 64>, dtype = bf16} : () -> tensor<8x64xbf16>
    %0 = "stepwell.cast"(%w) {dtype = f32} : (tensor<8x64xbf16>) -> tensor<8x64xf32>
    %1 = "stepwell.matmul"(%x, %0) : (tensor<64x8xf32>, tensor<8x64xf32>) -> tensor<64x64xf32>
    return %1 : tensor<64x64xf32>
  }
}

// -----

// Integers that a model converts are another matter.

// CHECK-LABEL: func @bytes
// CHECK:         (tensor<2x8xf32>, tensor<512xf32>) -> tensor<2x64xf32>
func.func @bytes(%x: tensor<2x8xf32>) -> tensor<2x64xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 8, 64>, dtype = i8} : () -> tensor<8x64xi8>
  %0 = "stepwell.cast"(%w) {dtype = f32} : (tensor<8x64xi8>) -> tensor<8x64xf32>
  %1 = "stepwell.matmul"(%x, %0) : (tensor<2x8xf32>, tensor<8x64xf32>) -> tensor<2x64xf32>
  return %1 : tensor<2x64xf32>
}
