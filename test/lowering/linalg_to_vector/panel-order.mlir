// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v4})' --split-input-file | FileCheck %s

// A result of several megabytes is written row by row if the weight stays in the cache: blocks have all panels, and the
// loop over panels is inside the loop over rows.
// CHECK-LABEL: func.func private @rows_outside
// CHECK: scf.forall (%{{.+}}) = (0) to (4096)
// CHECK: scf.for %{{.+}} step %c13 iter_args
// CHECK: scf.for %{{.+}} to %c8 step %c1 iter_args
// CHECK: linalg.generic
func.func private @rows_outside(%x: tensor<4096x64xf32>, %w: tensor<16384xf32>) -> tensor<4096x256xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 256 : i64, panel = 32 : i64} : (tensor<4096x64xf32>, tensor<16384xf32>) -> tensor<4096x256xf32>
  return %0 : tensor<4096x256xf32>
}

// -----

// A larger weight is read panel by panel.
// CHECK-LABEL: func.func private @negative_large_weight
// CHECK: scf.forall (%{{.+}}, %{{.+}}) = (0, 0) to (4096, 8)
// CHECK: scf.for %{{.+}} to %c2 step %c1 iter_args
// CHECK: scf.for %{{.+}} step %c1{{[2-4]}} iter_args
// CHECK: linalg.generic
func.func private @negative_large_weight(%x: tensor<4096x512xf32>, %w: tensor<131072xf32>) -> tensor<4096x256xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 256 : i64, panel = 32 : i64} : (tensor<4096x512xf32>, tensor<131072xf32>) -> tensor<4096x256xf32>
  return %0 : tensor<4096x256xf32>
}

// -----

// The weight of one of the 36 points would stay in the cache, those of all points do not: each is read once, panel by
// panel, for all 16 tiles of the image.
// CHECK-LABEL: func.func private @negative_weight_per_point
// CHECK: scf.forall (%{{.+}}) in (36)
// CHECK: scf.for %{{.+}} to %c16 step %c1 iter_args
// CHECK: scf.for %{{.+}} to %c16{{.*}} step %c8 iter_args
// CHECK: linalg.generic
func.func private @negative_weight_per_point(%x: tensor<1x13x13x64xf32>, %w: tensor<1179648xf32>) -> tensor<1x13x13x512xf32>
    attributes {stepwell.kernel = {class = "winograd"}} {
  %0 = "stepwell.winograd_conv"(%x, %w) {columns = 512 : i64, panel = 32 : i64, kernel = array<i64: 3, 3>, tile = 4 : i64, pads = array<i64: 1, 1, 1, 1>} : (tensor<1x13x13x64xf32>, tensor<1179648xf32>) -> tensor<1x13x13x512xf32>
  return %0 : tensor<1x13x13x512xf32>
}

// -----

// Sums of few rows are soon done, so a tile has those of several panels: here two rows of two panels.
// CHECK-LABEL: func.func private @few_rows
// CHECK-SAME: panels = array<i64: 2>, tiles = {{\[}}array<i64: 2>]
// CHECK: scf.for %{{.+}} to %c8 step %c2 iter_args
// CHECK: linalg.generic {{.*}}ins(%{{.+}}, %{{.+}} : tensor<2x64xf32>, tensor<2x64x32xf32>) outs(%{{.+}} : tensor<2x2x32xf32>)
func.func private @few_rows(%x: tensor<2x64xf32>, %w: tensor<16384xf32>) -> tensor<2x256xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 256 : i64, panel = 32 : i64} : (tensor<2x64xf32>, tensor<16384xf32>) -> tensor<2x256xf32>
  return %0 : tensor<2x256xf32>
}
