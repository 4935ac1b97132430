// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=cpu:sapphirerapids},stepwell-vectorize)' --split-input-file | FileCheck %s

// The numbers of a panel are stored as bytes once, from which the tiles of all rows read them.
// CHECK-LABEL: func.func private @spread
// CHECK-SAME:    bytes_method = "amx"
// CHECK:         scf.forall
// CHECK:           scf.for
// CHECK:             %[[WORDS:.+]] = vector.bitcast {{.+}} : vector<64xi8> to vector<16xi32>
// CHECK:             arith.andi %[[WORDS]]
// CHECK:             arith.shrui %[[WORDS]]
// CHECK:             vector.transfer_write {{.+}} : vector<64xi8>, tensor<1x2x32x128xi8>
// CHECK:           scf.for
// CHECK-NOT:         arith.shrui
// CHECK:             vector.transfer_read {{.+}} vector<16x64xi8>
// CHECK:             vector.contract {{.+}} : vector<16x16x4xi32>, vector<16x16x4xi32> into vector<16x16xi32>
// The number 8 stands for 0.
// CHECK:             arith.mulf {{.+}} : vector<16xf32>
func.func private @spread(%x: tensor<64x256xi8>, %sums: tensor<64x2xf32>, %w: tensor<8192xui8>, %s: tensor<128xf32>,
    %f: tensor<64x2xf32>) -> tensor<64x64xf32> attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_block_matmul"(%x, %sums, %w, %s, %f)
    {columns = 64 : i64, panel = 32 : i64, bits = 4 : i64, spread = true, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1>}
    : (tensor<64x256xi8>, tensor<64x2xf32>, tensor<8192xui8>, tensor<128xf32>, tensor<64x2xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}

// -----

// Ops that follow are computed for each tile.
// CHECK-LABEL: func.func private @epilogue
// CHECK:         vector.contract
// CHECK:         math.absf {{.+}} : vector<32xf32>
func.func private @epilogue(%x: tensor<64x256xi8>, %sums: tensor<64x2xf32>, %w: tensor<8192xui8>, %s: tensor<128xf32>,
    %f: tensor<64x2xf32>) -> tensor<64x64xf32> attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_block_matmul"(%x, %sums, %w, %s, %f)
    {columns = 64 : i64, panel = 32 : i64, bits = 4 : i64, spread = true, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1>}
    : (tensor<64x256xi8>, tensor<64x2xf32>, tensor<8192xui8>, tensor<128xf32>, tensor<64x2xf32>) -> tensor<64x64xf32>
  %1 = "stepwell.abs"(%0) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %1 : tensor<64x64xf32>
}

// -----

// CHECK-LABEL: func.func private @negative_not_spread
// CHECK:         arith.shrui
// CHECK:         vector.contract
func.func private @negative_not_spread(%x: tensor<16x64xi8>, %sums: tensor<16x2xf32>, %w: tensor<1024xui8>, %s: tensor<64xf32>,
    %f: tensor<16x2xf32>) -> tensor<16x32xf32> attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_block_matmul"(%x, %sums, %w, %s, %f)
    {columns = 32 : i64, panel = 32 : i64, bits = 4 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1>}
    : (tensor<16x64xi8>, tensor<16x2xf32>, tensor<1024xui8>, tensor<64xf32>, tensor<16x2xf32>) -> tensor<16x32xf32>
  return %0 : tensor<16x32xf32>
}
