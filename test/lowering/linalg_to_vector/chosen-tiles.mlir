// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v4})' --split-input-file | FileCheck %s

// A block holds the tile that a version was made for; two blocks of four rows would cost less at the greatest size.
// CHECK-LABEL: func.func private @seven_of_eight(
// CHECK-SAME:    tiles = [array<i64: 7>]
func.func private @seven_of_eight(%x: tensor<8x128xf32>, %w: tensor<65536xf32>, %table: tensor<256xi64>) -> tensor<8x512xf32>
    attributes {stepwell.kernel = {class = "contraction"}, stepwell.tile_rows = array<i64: 1, 7>, stepwell.typical = [array<i64: 7, 512>]} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 512 : i64, panel = 32 : i64} : (tensor<8x128xf32>, tensor<65536xf32>) -> tensor<8x512xf32>
  return %0 : tensor<8x512xf32>
}

// -----

// Negative: without a chosen tile, all eight rows are one tile.
// CHECK-LABEL: func.func private @negative_none_chosen(
// CHECK-SAME:    tiles = [array<i64: 8>]
func.func private @negative_none_chosen(%x: tensor<8x128xf32>, %w: tensor<65536xf32>, %table: tensor<256xi64>) -> tensor<8x512xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 512 : i64, panel = 32 : i64} : (tensor<8x128xf32>, tensor<65536xf32>) -> tensor<8x512xf32>
  return %0 : tensor<8x512xf32>
}
