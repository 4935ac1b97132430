// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v4},stepwell-vectorize)' --split-input-file | FileCheck %s

// `outermost = [0]`: the loop over panels is inside the loop over rows.
// CHECK-LABEL: func.func private @panels_inside
// CHECK: scf.for %{{.+}} = %{{.+}} to %c16 step %c8
// CHECK: scf.for %{{.+}} = %{{.+}} to %c4 step %c1
func.func private @panels_inside(%x: tensor<16x256xf32>, %w: tensor<32768xf32>) -> tensor<16x128xf32>
    attributes {stepwell.kernel = {class = "contraction"}, stepwell.schedule = {name = "contraction",
      tiles = [array<i64: 8>], blocks = [array<i64: 16, 4>], outermost = array<i64: 0>}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 128 : i64, panel = 32 : i64} : (tensor<16x256xf32>, tensor<32768xf32>) -> tensor<16x128xf32>
  return %0 : tensor<16x128xf32>
}

// -----

// `steps = 2`: an iteration of the innermost loop has two steps of eight rows; the prefetches stay.
// CHECK-LABEL: func.func private @steps
// CHECK: scf.for %{{.+}} = %{{.+}} to %c128 step %c1
// CHECK-COUNT-16: vector.fma
// CHECK-NOT: vector.fma
// CHECK: memref.prefetch
func.func private @steps(%x: tensor<16x256xf32>, %w: tensor<32768xf32>) -> tensor<16x128xf32>
    attributes {stepwell.kernel = {class = "contraction"}, stepwell.schedule = {name = "contraction",
      tiles = [array<i64: 8>], blocks = [array<i64: 16, 4>], steps = 2 : i64}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 128 : i64, panel = 32 : i64} : (tensor<16x256xf32>, tensor<32768xf32>) -> tensor<16x128xf32>
  return %0 : tensor<16x128xf32>
}

// -----

// CHECK-LABEL: func.func private @negative_prefetch
// CHECK-NOT: memref.prefetch
func.func private @negative_prefetch(%x: tensor<16x256xf32>, %w: tensor<32768xf32>) -> tensor<16x128xf32>
    attributes {stepwell.kernel = {class = "contraction"}, stepwell.schedule = {name = "contraction",
      tiles = [array<i64: 8>], blocks = [array<i64: 16, 4>], prefetch = 0 : i64}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 128 : i64, panel = 32 : i64} : (tensor<16x256xf32>, tensor<32768xf32>) -> tensor<16x128xf32>
  return %0 : tensor<16x128xf32>
}
