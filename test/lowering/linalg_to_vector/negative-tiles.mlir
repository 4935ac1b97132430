// RUN: not stepwell-opt %s --pass-pipeline='builtin.module(stepwell-apply-schedules{target=x86-64-v3})' 2>&1 | FileCheck %s

// A product in one group of columns, whose schedule has tiles for two.

#lhs = affine_map<(d0, d1, d2, d3) -> (d0, d3)>
#rhs = affine_map<(d0, d1, d2, d3) -> (d1, d3, d2)>
#out = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>

// CHECK: error: {{.*}}'tiles' of the schedule has 2 entries, but the kernel has 1 group of columns
func.func private @negative_two(%x: tensor<8x64xf32>, %w: tensor<1x64x8xf32>, %out: tensor<8x1x8xf32>) -> tensor<8x1x8xf32> attributes {stepwell.kernel = {class = "contraction"}, stepwell.schedule = {tiles = [array<i64: 2>, array<i64: 2>]}} {
  %zero = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%zero : f32) outs(%out : tensor<8x1x8xf32>) -> tensor<8x1x8xf32>
  %1 = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"], stepwell.contraction = 0 : i64, stepwell.root = 0 : i64} ins(%x, %w : tensor<8x64xf32>, tensor<1x64x8xf32>) outs(%0 : tensor<8x1x8xf32>) {
  ^bb0(%a: f32, %b: f32, %total: f32):
    %2 = arith.mulf %a, %b : f32
    %3 = arith.addf %total, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<8x1x8xf32>
  return %1 : tensor<8x1x8xf32>
}
