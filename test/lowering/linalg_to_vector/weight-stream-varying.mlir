// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v4},stepwell-vectorize)' --split-input-file | FileCheck %s

// Up to eight tiles of eight rows per panel of 256 x 32 elements, at least two: they share the next panel, 8192 elements
// in 64 iterations of each tile. An iteration of one of two tiles prefetches four lines; of more tiles, fewer.
// CHECK-LABEL: func.func private @tiles
// CHECK-SAME: %{{.+}}: tensor<64x256xf32>, %[[WEIGHT:.+]]: tensor<32768xf32>, %[[TABLE:.+]]: tensor<256xi64>
// CHECK-DAG: %[[ENTRY:.+]] = tensor.extract %[[TABLE]][%c5] : tensor<256xi64>
// CHECK-DAG: %[[EXTENT:.+]] = arith.index_cast %[[ENTRY]] : i64 to index
// CHECK: %[[ROUNDS:.+]] = arith.ceildivsi %{{.+}}, %c8
// CHECK: %[[TILES:.+]] = arith.maxsi %[[ROUNDS]], %c1
// CHECK: %[[EACH:.+]] = arith.muli %[[TILES]], %c64
// CHECK: %[[SHARE:.+]] = arith.ceildivui %c8192, %[[EACH]]
// CHECK: %[[STRIDE:.+]] = arith.minui %[[SHARE]], %c64
// CHECK: scf.for %{{.+}} = %{{.+}} to %c4 step
// CHECK: scf.for %[[ROW:.+]] = %{{.+}} to %c64 step %c8
// CHECK: %[[TILE:.+]] = arith.divui %[[ROW]], %c8
// CHECK: arith.minui %[[TILE]]
// CHECK: scf.for %[[STEP:.+]] = %{{.+}} to %c64 step
// CHECK: arith.muli %[[STEP]], %[[STRIDE]]
// CHECK-COUNT-4: memref.prefetch
// CHECK-NOT: memref.prefetch
func.func private @tiles(%x: tensor<64x256xf32>, %w: tensor<32768xf32>, %table: tensor<256xi64>, %out: tensor<64x128xf32>) -> tensor<64x128xf32>
    attributes {stepwell.kernel = {class = "contraction"}, stepwell.extents = array<i64: 5, -1>, stepwell.table_argument = 2 : i64,
      stepwell.typical = [array<i64: 16, 128>, array<i64: 64, 128>], stepwell.schedule = {name = "contraction",
      tiles = [array<i64: 8>], blocks = [array<i64: 64, 4>], unroll = 0 : i64, vector_bytes = 64 : i64}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 128 : i64, panel = 32 : i64} : (tensor<64x256xf32>, tensor<32768xf32>) -> tensor<64x128xf32>
  return %0 : tensor<64x128xf32>
}

// -----

// At sizes with a single tile, the kernel is made for one, and prefetches as it would without a table.
// CHECK-LABEL: func.func private @one_tile
// CHECK-NOT: arith.ceildivui
func.func private @one_tile(%x: tensor<64x256xf32>, %w: tensor<32768xf32>, %table: tensor<256xi64>, %out: tensor<64x128xf32>) -> tensor<64x128xf32>
    attributes {stepwell.kernel = {class = "contraction"}, stepwell.extents = array<i64: 5, -1>, stepwell.table_argument = 2 : i64,
      stepwell.typical = [array<i64: 5, 128>, array<i64: 8, 128>], stepwell.schedule = {name = "contraction",
      tiles = [array<i64: 8>], blocks = [array<i64: 64, 4>], unroll = 0 : i64, vector_bytes = 64 : i64}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 128 : i64, panel = 32 : i64} : (tensor<64x256xf32>, tensor<32768xf32>) -> tensor<64x128xf32>
  return %0 : tensor<64x128xf32>
}
