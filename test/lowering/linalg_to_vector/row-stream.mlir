// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v4},stepwell-vectorize)' --split-input-file | FileCheck %s

// Rows of 1024 elements are read in panels of 32: two tiles of eight result rows prefetch half of the next panel each.
// CHECK-DAG: #[[$ROW:.+]] = affine_map<(d0, d1) -> (127, d0 * 8 + d1 * 2)>
// CHECK-DAG: #[[$NEXT:.+]] = affine_map<(d0) -> (31, d0 + 1)>
// CHECK-LABEL: func.func private @rows
// CHECK: scf.for %[[PANEL:.+]] = %{{.+}} to %c32 step
// CHECK: scf.for %[[TILE:.+]] = %{{.+}} to %c16 step %c8
// CHECK: scf.for %[[STEP:.+]] = %{{.+}} to %c32 step
// CHECK-COUNT-32: vector.fma
// CHECK-COUNT-4: memref.prefetch %{{.+}}[%{{.+}}, %{{.+}}, %{{.+}}], read, locality<2>, data
// CHECK-NOT: memref.prefetch
func.func private @rows(%x: tensor<16x128xf32>, %y: tensor<128x1024xf32>) -> tensor<16x1024xf32>
    attributes {stepwell.kernel = {class = "contraction"}, stepwell.schedule = {name = "contraction",
      tiles = [array<i64: 8>], blocks = [array<i64: 16, 32>], unroll = 0 : i64, vector_bytes = 64 : i64}} {
  %0 = "stepwell.matmul"(%x, %y) : (tensor<16x128xf32>, tensor<128x1024xf32>) -> tensor<16x1024xf32>
  return %0 : tensor<16x1024xf32>
}

// -----

// A small operand is in the cache.
// CHECK-LABEL: func.func private @negative_small
// CHECK-NOT: memref.prefetch
func.func private @negative_small(%x: tensor<16x64xf32>, %y: tensor<64x256xf32>) -> tensor<16x256xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.matmul"(%x, %y) : (tensor<16x64xf32>, tensor<64x256xf32>) -> tensor<16x256xf32>
  return %0 : tensor<16x256xf32>
}
