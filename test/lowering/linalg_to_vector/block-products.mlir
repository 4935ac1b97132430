// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v3},stepwell-vectorize)' --split-input-file | FileCheck %s

// One row: the words of a block follow each other, and those a page ahead are prefetched.
// CHECK-LABEL: func.func private @one_row
// CHECK: scf.for {{.*}} -> (vector<16xf32>)
// CHECK-NOT: scf.for
// CHECK-COUNT-16: pmadd.ub.sw
// CHECK-COUNT-2: pmadd.wd
// CHECK-COUNT-4: memref.prefetch
// CHECK-NOT: memref.prefetch
func.func private @one_row(%x: tensor<1x1024xi8>, %sums: tensor<1x32xf32>, %w: tensor<131072xui8>, %s: tensor<8192xf32>,
    %f: tensor<1x32xf32>) -> tensor<1x256xf32>
    attributes {stepwell.kernel = {class = "contraction"}, stepwell.schedule = {name = "contraction",
      tiles = [array<i64>], blocks = [array<i64: 16>], unroll = 0 : i64, vector_bytes = 32 : i64, bytes_method = "pairs"}} {
  %0 = "stepwell.packed_block_matmul"(%x, %sums, %w, %s, %f)
    {columns = 256 : i64, panel = 16 : i64, bits = 4 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1>}
    : (tensor<1x1024xi8>, tensor<1x32xf32>, tensor<131072xui8>, tensor<8192xf32>, tensor<1x32xf32>) -> tensor<1x256xf32>
  return %0 : tensor<1x256xf32>
}

// -----

// Several rows: the four words of a block are a loop whose 16-bit sums stay in registers.
// CHECK-LABEL: func.func private @rows
// CHECK: %[[SUMS:.+]]:8 = scf.for {{.*}} -> (vector<16xi16>, vector<16xi16>, vector<16xi16>, vector<16xi16>, vector<16xi16>, vector<16xi16>, vector<16xi16>, vector<16xi16>)
// CHECK-COUNT-16: pmadd.ub.sw
// CHECK: scf.yield
// CHECK-COUNT-8: pmadd.wd
func.func private @rows(%x: tensor<4x1024xi8>, %sums: tensor<4x32xf32>, %w: tensor<131072xui8>, %s: tensor<8192xf32>,
    %f: tensor<4x32xf32>) -> tensor<4x256xf32>
    attributes {stepwell.kernel = {class = "contraction"}, stepwell.schedule = {name = "contraction",
      tiles = [array<i64: 4>], blocks = [array<i64: 4, 16>], unroll = 0 : i64, vector_bytes = 32 : i64, bytes_method = "pairs"}} {
  %0 = "stepwell.packed_block_matmul"(%x, %sums, %w, %s, %f)
    {columns = 256 : i64, panel = 16 : i64, bits = 4 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1>}
    : (tensor<4x1024xi8>, tensor<4x32xf32>, tensor<131072xui8>, tensor<8192xf32>, tensor<4x32xf32>) -> tensor<4x256xf32>
  return %0 : tensor<4x256xf32>
}
