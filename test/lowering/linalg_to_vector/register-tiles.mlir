// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v4},stepwell-vectorize)' --split-input-file | FileCheck %s

// Nine rows in tiles of five: the second tile starts at row four, to end at the last row.
// CHECK: #[[$START:.+]] = affine_map<(d0) -> (4, d0)>
// CHECK-LABEL: func.func private @matmul
// CHECK: scf.for %[[ROW:.+]] = %{{.+}} to %{{.+}} step %{{.+}} iter_args
// CHECK: %[[START:.+]] = affine.min #[[$START]](%[[ROW]])
// The sums of all rows stay in registers during the loop over the depth.
// CHECK: %[[SUMS:.+]]:5 = scf.for {{.*}} -> (vector<32xf32>, vector<32xf32>, vector<32xf32>, vector<32xf32>, vector<32xf32>)
// CHECK-COUNT-1: vector.transfer_read
// CHECK-COUNT-5: vector.fma
// CHECK: scf.yield
// The epilogue is applied to them once, before they are written.
// CHECK: arith.addf %[[SUMS]]#0
// CHECK-COUNT-5: vector.transfer_write
// CHECK-NOT: linalg.
func.func private @matmul(%x: tensor<9x64xf32>, %w: tensor<2048xf32>, %b: tensor<32xf32>) -> tensor<9x32xf32>
    attributes {stepwell.kernel = {class = "contraction"}, stepwell.schedule = {name = "contraction",
      tiles = [array<i64: 5>], blocks = [array<i64: 9, 1>], unroll = 0 : i64, vector_bytes = 64 : i64}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 32 : i64, panel = 32 : i64} : (tensor<9x64xf32>, tensor<2048xf32>) -> tensor<9x32xf32>
  %1 = "stepwell.add"(%0, %b) : (tensor<9x32xf32>, tensor<32xf32>) -> tensor<9x32xf32>
  return %1 : tensor<9x32xf32>
}

// -----

// Nineteen columns are a register and a masked part of one, which is read completely.
// CHECK-LABEL: func.func private @matmul_masked
// CHECK: %[[MASK:.+]] = vector.constant_mask [3] : vector<4xi1>
// CHECK: vector.transfer_read {{.*}} : tensor<1x64x19xf32>, vector<16xf32>
// CHECK: %[[REST:.+]] = vector.transfer_read {{.*}}, %[[MASK]] {{.*}} : tensor<1x64x19xf32>, vector<4xf32>
// CHECK: vector.shuffle %[[REST]], %[[REST]] [0, 1, 2, 3, -1, {{.*}}] : vector<4xf32>, vector<4xf32>
// CHECK: vector.transfer_write {{.*}} : vector<4xf32>
func.func private @matmul_masked(%x: tensor<4x64xf32>, %w: tensor<1216xf32>) -> tensor<4x19xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 19 : i64, panel = 19 : i64} : (tensor<4x64xf32>, tensor<1216xf32>) -> tensor<4x19xf32>
  return %0 : tensor<4x19xf32>
}

// -----

// The taps of a row of the kernel are unrolled, and adjacent pixels share their reads: 2 + 3 - 1 pixels.
// CHECK-LABEL: func.func private @depthwise
// CHECK: scf.for %{{.+}} = %{{.+}} to %{{.+}} step %{{.+}} iter_args({{.*}}) -> (vector<16xf32>, vector<16xf32>)
// CHECK-COUNT-6: vector.fma
// CHECK: scf.yield
func.func private @depthwise(%x: tensor<1x10x10x16xf32>, %w: tensor<3x3x16xf32>) -> tensor<1x8x8x16xf32>
    attributes {stepwell.kernel = {class = "depthwise"}, stepwell.schedule = {name = "depthwise",
      tiles = [array<i64: 1, 2>], blocks = [array<i64: 8, 8, 1>], unroll = 3 : i64, vector_bytes = 64 : i64}} {
  %0 = "stepwell.packed_depthwise_conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x10x10x16xf32>, tensor<3x3x16xf32>) -> tensor<1x8x8x16xf32>
  return %0 : tensor<1x8x8x16xf32>
}

// -----

// Terms come in the order of the pixels, so that a pixel is used up before the next one is read: the third one is that
// of the second tap of the first place, which reads the same pixel as the first tap of the second place.
// CHECK-LABEL: func.func private @depthwise_along_input
// CHECK: scf.for
// CHECK: %[[FIRST:.+]] = vector.fma
// CHECK: vector.fma %[[PIXEL:.+]], %{{.+}}, %arg
// CHECK: vector.fma %[[PIXEL]], %{{.+}}, %[[FIRST]]
// CHECK-COUNT-9: vector.fma
// CHECK: scf.yield
func.func private @depthwise_along_input(%x: tensor<1x10x10x16xf32>, %w: tensor<3x3x16xf32>) -> tensor<1x8x8x16xf32>
    attributes {stepwell.kernel = {class = "depthwise"}, stepwell.schedule = {name = "depthwise",
      tiles = [array<i64: 1, 4>], blocks = [array<i64: 8, 8, 1>], unroll = 3 : i64, vector_bytes = 64 : i64}} {
  %0 = "stepwell.packed_depthwise_conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x10x10x16xf32>, tensor<3x3x16xf32>) -> tensor<1x8x8x16xf32>
  return %0 : tensor<1x8x8x16xf32>
}

// -----

// Lanes of one group read the same channel: a row of channels is read once, and broadcast for each channel of a group.
// CHECK-LABEL: func.func private @grouped
// CHECK: %[[ROW:.+]] = vector.transfer_read
// CHECK: vector.shuffle %[[ROW]], %[[ROW]] [0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8]
// CHECK: vector.shuffle %[[ROW]], %[[ROW]] [1, 1, 1, 1, 1, 1, 1, 1, 9, 9, 9, 9, 9, 9, 9, 9]
func.func private @grouped(%x: tensor<1x10x10x16xf32>, %w: tensor<3x3x8x16xf32>) -> tensor<1x8x8x16xf32>
    attributes {stepwell.kernel = {class = "depthwise"}, stepwell.schedule = {name = "depthwise",
      tiles = [array<i64: 1, 2>], blocks = [array<i64: 8, 8, 1>], unroll = 24 : i64, vector_bytes = 64 : i64}} {
  %0 = "stepwell.packed_grouped_conv"(%x, %w) {group = 2 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x10x10x16xf32>, tensor<3x3x8x16xf32>) -> tensor<1x8x8x16xf32>
  return %0 : tensor<1x8x8x16xf32>
}
