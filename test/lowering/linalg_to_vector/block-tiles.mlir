// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=cpu:sapphirerapids},stepwell-vectorize)' --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v4},stepwell-vectorize)' --split-input-file | FileCheck %s --check-prefix=VECTORS

// The numbers of two blocks are unpacked into tiles in memory, multiplied by 16 rows at once, and the sums of blocks are
// scaled row by row.
// CHECK-LABEL: func.func private @many_rows
// CHECK-SAME:    bytes_method = "amx"
// CHECK:         scf.for {{.*}} -> (vector<32xf32>
// CHECK:           arith.shrui
// CHECK:           vector.transfer_write %{{.+}} : vector<64xi8>, tensor<8x64xi8>
// CHECK:           vector.shape_cast %{{.+}} : vector<16x4x2x4xi8> to vector<16x8x4xi8>
// CHECK:           arith.extsi
// CHECK:           vector.shape_cast %{{.+}} : vector<8x64xi8> to vector<8x16x4xi8>
// CHECK:           arith.extui
// CHECK-COUNT-4:   vector.contract {{.+}} vector<16x8x4xi32>, vector<8x16x4xi32> into vector<16x16xi32>
// CHECK-COUNT-4:   vector.transfer_write %{{.+}} : vector<16x16xi32>, tensor<16x16xi32>
// CHECK:           arith.sitofp %{{.+}} : vector<16xi32> to vector<16xf32>
// VECTORS-LABEL: func.func private @many_rows
// VECTORS-NOT:     vector.contract
// VECTORS:         return
func.func private @many_rows(%x: tensor<32x256xi8>, %sums: tensor<32x8xf32>, %w: tensor<8192xui8>, %s: tensor<512xf32>,
    %f: tensor<32x8xf32>) -> tensor<32x64xf32> attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_block_matmul"(%x, %sums, %w, %s, %f)
    {columns = 64 : i64, panel = 32 : i64, bits = 4 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1>}
    : (tensor<32x256xi8>, tensor<32x8xf32>, tensor<8192xui8>, tensor<512xf32>, tensor<32x8xf32>) -> tensor<32x64xf32>
  return %0 : tensor<32x64xf32>
}

// -----

// A block of 128 numbers takes two products that add to the same sums.
// CHECK-LABEL: func.func private @long_blocks
// CHECK:         scf.for
// CHECK:           %[[FIRST:.+]] = vector.contract {{.+}} vector<16x16x4xi32>, vector<16x16x4xi32> into vector<16x16xi32>
// CHECK:           vector.contract {{.+}} %[[FIRST]]
func.func private @long_blocks(%x: tensor<16x256xi8>, %sums: tensor<16x2xf32>, %w: tensor<4096xui8>, %s: tensor<64xf32>,
    %f: tensor<16x2xf32>) -> tensor<16x32xf32> attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_block_matmul"(%x, %sums, %w, %s, %f)
    {columns = 32 : i64, panel = 32 : i64, bits = 4 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1>}
    : (tensor<16x256xi8>, tensor<16x2xf32>, tensor<4096xui8>, tensor<64xf32>, tensor<16x2xf32>) -> tensor<16x32xf32>
  return %0 : tensor<16x32xf32>
}

// -----

// Vectors are as fast for few rows.
// CHECK-LABEL: func.func private @negative_few_rows
// CHECK-SAME:    bytes_method = "dot"
// CHECK-NOT:     vector.contract
// CHECK:         return
func.func private @negative_few_rows(%x: tensor<4x256xi8>, %sums: tensor<4x8xf32>, %w: tensor<4096xui8>, %s: tensor<256xf32>,
    %f: tensor<4x8xf32>) -> tensor<4x32xf32> attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_block_matmul"(%x, %sums, %w, %s, %f)
    {columns = 32 : i64, panel = 32 : i64, bits = 4 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1>}
    : (tensor<4x256xi8>, tensor<4x8xf32>, tensor<4096xui8>, tensor<256xf32>, tensor<4x8xf32>) -> tensor<4x32xf32>
  return %0 : tensor<4x32xf32>
}

// -----

// Rows of floats have no products of bytes.
// CHECK-LABEL: func.func private @negative_floats
// CHECK-NOT:     vector.contract
// CHECK:         return
func.func private @negative_floats(%x: tensor<16x256xf32>, %sums: tensor<16x8xf32>, %w: tensor<4096xui8>, %s: tensor<256xf32>)
    -> tensor<16x32xf32> attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_block_matmul"(%x, %sums, %w, %s)
    {columns = 32 : i64, panel = 32 : i64, bits = 4 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>}
    : (tensor<16x256xf32>, tensor<16x8xf32>, tensor<4096xui8>, tensor<256xf32>) -> tensor<16x32xf32>
  return %0 : tensor<16x32xf32>
}
