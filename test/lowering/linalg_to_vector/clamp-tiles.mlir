// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v4},stepwell-vectorize)' | FileCheck %s

// Parallel blocks of six of sixteen rows, in tiles of four: the last block is moved back to row ten, and the last tile
// of every block to its row two. All tiles have one size, so their code exists once.
// CHECK-DAG: #[[$BLOCK:.+]] = affine_map<(d0) -> (10, d0)>
// CHECK-DAG: #[[$TILE:.+]] = affine_map<(d0) -> (2, d0)>
// CHECK-LABEL: func.func private @blocks_and_tiles
// CHECK: scf.forall (%[[I:.+]]) = (0) to (16) step (6)
// CHECK: affine.min #[[$BLOCK]](%[[I]])
// CHECK: scf.for %[[J:[a-z0-9]+]] =
// CHECK: affine.min #[[$TILE]](%[[J]])
// CHECK: vector.fma
// CHECK-NOT: tensor<?x
func.func private @blocks_and_tiles(%x: tensor<16x64xf32>, %w: tensor<2048xf32>) -> tensor<16x32xf32>
    attributes {stepwell.kernel = {class = "contraction"}, stepwell.schedule = {name = "contraction",
      tiles = [array<i64: 4>], blocks = [array<i64: 6, 1>], unroll = 0 : i64, vector_bytes = 64 : i64}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 32 : i64, panel = 32 : i64} : (tensor<16x64xf32>, tensor<2048xf32>) -> tensor<16x32xf32>
  return %0 : tensor<16x32xf32>
}

// Tiles without a remainder stay where they are.
// CHECK-LABEL: func.func private @negative_whole_tiles
// CHECK-NOT: affine.min
// CHECK: return
func.func private @negative_whole_tiles(%x: tensor<16x64xf32>, %w: tensor<2048xf32>) -> tensor<16x32xf32>
    attributes {stepwell.kernel = {class = "contraction"}, stepwell.schedule = {name = "contraction",
      tiles = [array<i64: 4>], blocks = [array<i64: 8, 1>], unroll = 0 : i64, vector_bytes = 64 : i64}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 32 : i64, panel = 32 : i64} : (tensor<16x64xf32>, tensor<2048xf32>) -> tensor<16x32xf32>
  return %0 : tensor<16x32xf32>
}
