// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v4},stepwell-vectorize)' --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v4},stepwell-vectorize)' --target=aarch64:apple-m1 --split-input-file | FileCheck %s --check-prefix=M1

// A sum and its addend, 512 KiB each: every step prefetches one of the tile's eight rows, two lines of either tensor.
// CHECK-DAG: #[[$ROW:.+]] = affine_map<(d0) -> (7, d0)>
// CHECK-LABEL: func.func private @residual
// CHECK-SAME: %{{.+}}: tensor<4096x32xf32>, %{{.+}}: tensor<1024xf32>, %[[RESIDUAL:.+]]: tensor<4096x32xf32>, %
// CHECK: %[[WHOLE:.+]] = tensor.expand_shape %[[RESIDUAL]]
// CHECK: %[[READ:.+]] = bufferization.to_buffer %[[WHOLE]] read_only : tensor<4096x1x32xf32> to memref<4096x1x32xf32, strided<[?, ?, ?], offset: ?>>
// CHECK: scf.for %{{.+}} = %{{.+}} to %c4096 step %c8 iter_args(%[[OUT:.+]] = %
// CHECK: %[[WRITTEN:.+]] = bufferization.to_buffer %[[OUT]] read_only
// CHECK: scf.for %[[STEP:.+]] = %{{.+}} to %c8
// CHECK-COUNT-32: vector.fma
// CHECK: affine.min #[[$ROW]](%[[STEP]])
// CHECK: memref.prefetch %[[READ]][%{{.+}}, %c0, %c0], read
// CHECK: memref.prefetch %[[READ]][%{{.+}}, %c0, %c16], read
// CHECK: memref.prefetch %[[WRITTEN]][%{{.+}}, %c0, %c0], write
// CHECK: memref.prefetch %[[WRITTEN]][%{{.+}}, %c0, %c16], write
// CHECK-NOT: memref.prefetch

// A line of an Apple M1 has 128 bytes: one prefetch for each row.
// M1-LABEL: func.func private @residual
// M1: memref.prefetch %{{.+}}[%{{.+}}, %c0, %c0], read
// M1-NEXT: memref.prefetch %{{.+}}[%{{.+}}, %c0, %c0], write
func.func private @residual(%x: tensor<4096x32xf32>, %w: tensor<1024xf32>, %r: tensor<4096x32xf32>) -> tensor<4096x32xf32>
    attributes {stepwell.kernel = {class = "contraction"}, stepwell.schedule = {name = "contraction",
      tiles = [array<i64: 8>], blocks = [array<i64: 4096, 1>], unroll = 0 : i64, vector_bytes = 64 : i64}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 32 : i64, panel = 32 : i64} : (tensor<4096x32xf32>, tensor<1024xf32>) -> tensor<4096x32xf32>
  %1 = "stepwell.add"(%0, %r) : (tensor<4096x32xf32>, tensor<4096x32xf32>) -> tensor<4096x32xf32>
  return %1 : tensor<4096x32xf32>
}

// -----

// An addend that all rows share is in the cache; so is a small result.
// CHECK-LABEL: func.func private @bias
// CHECK-NOT: memref.prefetch
func.func private @bias(%x: tensor<64x32xf32>, %w: tensor<1024xf32>, %b: tensor<32xf32>) -> tensor<64x32xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 32 : i64, panel = 32 : i64} : (tensor<64x32xf32>, tensor<1024xf32>) -> tensor<64x32xf32>
  %1 = "stepwell.add"(%0, %b) : (tensor<64x32xf32>, tensor<32xf32>) -> tensor<64x32xf32>
  return %1 : tensor<64x32xf32>
}

// -----

// A product alone writes its tile where the sums start; the result is large, though a block's part of it is small.
// CHECK-LABEL: func.func private @alone
// CHECK: scf.forall
// CHECK: scf.for %{{.+}} = %{{.+}} to %c64 step %c8 iter_args(%[[BLOCK:.+]] = %
// CHECK: %[[PART:.+]] = bufferization.to_buffer %[[BLOCK]] read_only : tensor<64x1x32xf32>
// CHECK: memref.prefetch %[[PART]][%{{.+}}, %c0, %c0], write
func.func private @alone(%x: tensor<4096x32xf32>, %w: tensor<1024xf32>) -> tensor<4096x32xf32>
    attributes {stepwell.kernel = {class = "contraction"}, stepwell.schedule = {name = "contraction",
      tiles = [array<i64: 8>], blocks = [array<i64: 64, 1>], unroll = 0 : i64, vector_bytes = 64 : i64}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 32 : i64, panel = 32 : i64} : (tensor<4096x32xf32>, tensor<1024xf32>) -> tensor<4096x32xf32>
  return %0 : tensor<4096x32xf32>
}

// -----

// During 512 steps of computation, the stores of the previous tile have enough time.
// CHECK-LABEL: func.func private @deep
// CHECK-NOT: memref.prefetch %{{.+}}, write
func.func private @deep(%x: tensor<4096x512xf32>, %w: tensor<16384xf32>) -> tensor<4096x32xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 32 : i64, panel = 32 : i64} : (tensor<4096x512xf32>, tensor<16384xf32>) -> tensor<4096x32xf32>
  return %0 : tensor<4096x32xf32>
}
