// RUN: not stepwell-opt %s --pass-pipeline='builtin.module(stepwell-apply-schedules{target=x86-64-v3},stepwell-vectorize)' 2>&1 | FileCheck %s

// Tiles of four of nine rows would overlap, and the sums start outside of their loop.

#x = affine_map<(d0, d1, d2) -> (d0, d2)>
#w = affine_map<(d0, d1, d2) -> (d2, d1)>
#y = affine_map<(d0, d1, d2) -> (d0, d1)>

module attributes {transform.with_named_sequence} {
  transform.named_sequence @rows(%kernel: !transform.any_op {transform.readonly}) {
    %op = transform.structured.match ops{["linalg.generic"]} in %kernel : (!transform.any_op) -> !transform.any_op
    %tiled, %loop = transform.structured.tile_using_for %op tile_sizes [4] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }

  // CHECK: error: {{.*}}tiles of 4 of 9 overlap and would be added twice
  func.func private @product(%x: tensor<9x8xf32>, %w: tensor<8x16xf32>, %y: tensor<9x16xf32>) -> tensor<9x16xf32> attributes {stepwell.kernel = {class = "contraction"}, stepwell.schedule = @rows} {
    %zero = arith.constant 0.0 : f32
    %0 = linalg.fill ins(%zero : f32) outs(%y : tensor<9x16xf32>) -> tensor<9x16xf32>
    %1 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<9x8xf32>, tensor<8x16xf32>) outs(%0 : tensor<9x16xf32>) {
    ^bb0(%a: f32, %b: f32, %sum: f32):
      %2 = arith.mulf %a, %b : f32
      %3 = arith.addf %sum, %2 : f32
      linalg.yield %3 : f32
    } -> tensor<9x16xf32>
    return %1 : tensor<9x16xf32>
  }
}
