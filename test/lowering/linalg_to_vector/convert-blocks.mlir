// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=cpu:sapphirerapids},stepwell-vectorize)' --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v4},stepwell-vectorize)' --split-input-file | FileCheck %s --check-prefix=VECTORS

// A panel is converted to bf16 once, with the scales of each block, before the rows are multiplied with it.
// CHECK-LABEL: func.func private @converted
// CHECK-SAME:    bytes_method = "amx"
// CHECK:         scf.forall
// CHECK:           scf.for
// CHECK:             %[[SCALE:.+]] = vector.transfer_read {{.+}} vector<16xf32>
// CHECK:             %[[OFFSET:.+]] = arith.negf
// CHECK:             scf.for
// CHECK:               %[[WORDS:.+]] = vector.bitcast {{.+}} : vector<64xi8> to vector<16xi32>
// CHECK:               vector.fma %{{.+}}, %[[SCALE]], %[[OFFSET]] : vector<16xf32>
// CHECK:               arith.truncf {{.+}} : vector<16xf32> to vector<16xbf16>
// CHECK:               vector.interleave {{.+}} : vector<16xbf16> -> vector<32xbf16>
// CHECK:               vector.transfer_write {{.+}} : vector<32xbf16>, tensor<1x128x64xbf16>
// CHECK:           scf.for
// CHECK-COUNT-4:     vector.contract {{.+}} : vector<16x16x2xf32>, vector<16x16x2xf32> into vector<16x16xf32>
// VECTORS-LABEL: func.func private @converted
// VECTORS:         vector.interleave
// VECTORS-NOT:     vector.contract
// VECTORS:         return
func.func private @converted(%x: tensor<64x256xbf16>, %w: tensor<8192xui8>, %s: tensor<512xf32>)
    -> tensor<64x64xf32> attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_block_matmul"(%x, %w, %s)
    {columns = 64 : i64, panel = 32 : i64, bits = 4 : i64, operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>}
    : (tensor<64x256xbf16>, tensor<8192xui8>, tensor<512xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}

// -----

// Ops that follow are computed for a few rows of each tile of sums.
// CHECK-LABEL: func.func private @epilogue
// CHECK:         vector.contract
// CHECK:         scf.for
// CHECK:           math.absf {{.+}} : vector<32xf32>
func.func private @epilogue(%x: tensor<64x256xbf16>, %w: tensor<8192xui8>, %s: tensor<512xf32>)
    -> tensor<64x64xf32> attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_block_matmul"(%x, %w, %s)
    {columns = 64 : i64, panel = 32 : i64, bits = 4 : i64, operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>}
    : (tensor<64x256xbf16>, tensor<8192xui8>, tensor<512xf32>) -> tensor<64x64xf32>
  %1 = "stepwell.abs"(%0) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %1 : tensor<64x64xf32>
}

// -----

// Rows of bytes are multiplied with the numbers as they are.
// CHECK-LABEL: func.func private @negative_bytes
// CHECK-NOT:     bf16
// CHECK:         return
func.func private @negative_bytes(%x: tensor<16x64xi8>, %sums: tensor<16x2xf32>, %w: tensor<1024xui8>, %s: tensor<64xf32>,
    %f: tensor<16x2xf32>) -> tensor<16x32xf32> attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_block_matmul"(%x, %sums, %w, %s, %f)
    {columns = 32 : i64, panel = 32 : i64, bits = 4 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1>}
    : (tensor<16x64xi8>, tensor<16x2xf32>, tensor<1024xui8>, tensor<64xf32>, tensor<16x2xf32>) -> tensor<16x32xf32>
  return %0 : tensor<16x32xf32>
}
