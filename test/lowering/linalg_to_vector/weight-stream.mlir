// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v4},stepwell-vectorize)' --split-input-file | FileCheck %s

// Two tiles of eight rows per panel of 256 x 32 elements: each prefetches half of the next panel in 256 / 4 iterations.
// CHECK-DAG: #[[$START:.+]] = affine_map<(d0, d1) -> (24576, d0 * 8192 + d1 * 512 + 8192)>
// CHECK-DAG: #[[$LINE:.+]] = affine_map<(d0, d1) -> (d0 + d1 * 64 + 16)>
// CHECK-LABEL: func.func private @panels
// CHECK-SAME: %{{.+}}: tensor<16x256xf32>, %[[WEIGHT:.+]]: tensor<32768xf32>, %
// CHECK: %[[FLAT:.+]] = bufferization.to_buffer %[[WEIGHT]] read_only
// CHECK: scf.for %[[PANEL:.+]] = %{{.+}} to %c4 step
// CHECK: scf.for %[[ROW:.+]] = %{{.+}} to %c16 step %c8
// CHECK: %[[FIRST:.+]] = affine.min #[[$START]](%[[PANEL]], %[[ROW]])
// CHECK: scf.for %[[STEP:.+]] = %{{.+}} to %c64 step
// CHECK-COUNT-32: vector.fma
// CHECK: %[[AT:.+]] = affine.apply #[[$LINE]](%[[FIRST]], %[[STEP]])
// CHECK: memref.prefetch %[[FLAT]][%[[AT]]], read, locality<2>, data
// CHECK-COUNT-2: memref.prefetch
// CHECK-NOT: memref.prefetch
func.func private @panels(%x: tensor<16x256xf32>, %w: tensor<32768xf32>) -> tensor<16x128xf32>
    attributes {stepwell.kernel = {class = "contraction"}, stepwell.schedule = {name = "contraction",
      tiles = [array<i64: 8>], blocks = [array<i64: 16, 4>], unroll = 0 : i64, vector_bytes = 64 : i64}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 128 : i64, panel = 32 : i64} : (tensor<16x256xf32>, tensor<32768xf32>) -> tensor<16x128xf32>
  return %0 : tensor<16x128xf32>
}

// -----

// With one panel or a small weight, there is nothing to prefetch.
// CHECK-LABEL: func.func private @one_panel
// CHECK-NOT: memref.prefetch
func.func private @one_panel(%x: tensor<16x1024xf32>, %w: tensor<32768xf32>) -> tensor<16x32xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 32 : i64, panel = 32 : i64} : (tensor<16x1024xf32>, tensor<32768xf32>) -> tensor<16x32xf32>
  return %0 : tensor<16x32xf32>
}

// CHECK-LABEL: func.func private @small
// CHECK-NOT: memref.prefetch
func.func private @small(%x: tensor<16x64xf32>, %w: tensor<4096xf32>) -> tensor<16x64xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 64 : i64, panel = 32 : i64} : (tensor<16x64xf32>, tensor<4096xf32>) -> tensor<16x64xf32>
  return %0 : tensor<16x64xf32>
}

// -----

// The columns of a panel in a wider matrix are not contiguous: prefetching them as one stream would copy them first.
// CHECK-LABEL: func.func private @negative_columns
// CHECK-NOT: tensor.collapse_shape %{{.+}} : tensor<4x128x32xf32> into tensor<16384xf32>
// CHECK-NOT: memref.prefetch
func.func private @negative_columns(%x: tensor<4x128x16xf32>, %w: tensor<4x128x48xf32>) -> tensor<4x16x48xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.matmul"(%x, %w) {transpose_lhs = true, transpose_rhs = false} : (tensor<4x128x16xf32>, tensor<4x128x48xf32>) -> tensor<4x16x48xf32>
  return %0 : tensor<4x16x48xf32>
}

// -----

// Ten panels of 48 columns and one of 32: the part of a flat weight that has equal panels is contiguous.
// CHECK-LABEL: func.func private @uneven_panels
// CHECK: %[[WHOLE:.+]] = bufferization.to_buffer %{{.+}} read_only : tensor<245760xf32> to memref<245760xf32>
// CHECK: memref.prefetch %[[WHOLE]]
func.func private @uneven_panels(%x: tensor<14x512xf32>, %w: tensor<262144xf32>) -> tensor<14x512xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 512 : i64, panel = 48 : i64} : (tensor<14x512xf32>, tensor<262144xf32>) -> tensor<14x512xf32>
  return %0 : tensor<14x512xf32>
}
