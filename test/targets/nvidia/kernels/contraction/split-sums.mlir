// RUN: stepwell-opt %s --split-input-file --stepwell-split-sums=target=cuda:sm_90a | FileCheck %s

// One row of few columns: without splitting, a few blocks would compute the whole sum while all others are idle.

// CHECK: #[[$LHS:.+]] = affine_map<(d0, d1, d2, d3) -> (d1, d0, d3)>
// CHECK: #[[$RHS:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>
// CHECK: #[[$PARTS:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// CHECK-LABEL: func.func private @few_results(
// CHECK: %[[X:.+]] = tensor.expand_shape %{{.+}} {{\[}}[0], [1, 2]] output_shape [4, 64, 64]
// CHECK: %[[W:.+]] = tensor.expand_shape %{{.+}} {{\[}}[0, 1], [2]] output_shape [64, 64, 512]
// CHECK: %[[SUMS:.+]] = linalg.generic {indexing_maps = [#[[$LHS]], #[[$RHS]], #[[$PARTS]]],
// CHECK-SAME: iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%[[X]], %[[W]]
// CHECK-SAME: attrs = {stepwell.contraction = 0 : i64, stepwell.materialize}
// CHECK: %[[Y:.+]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[SUMS]]
// CHECK: return %[[Y]]
#lhs = affine_map<(m, n, k) -> (m, k)>
#rhs = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>
func.func private @few_results(%x: tensor<4x4096xf32>, %w: tensor<4096x512xf32>, %out: tensor<4x512xf32>) -> tensor<4x512xf32>
    attributes {stepwell.kernel = {bytes = 1 : i64, class = "contraction", flops = 1 : i64}} {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%out : tensor<4x512xf32>) -> tensor<4x512xf32>
  %y = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x4096xf32>, tensor<4096x512xf32>) outs(%f : tensor<4x512xf32>)
      attrs = {stepwell.contraction = 0 : i64, stepwell.root = 0 : i64} {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x512xf32>
  return %y : tensor<4x512xf32>
}

// -----

// Many results keep all multiprocessors busy, so splitting gains nothing.

// CHECK-LABEL: func.func private @many_results(
// CHECK-NOT: stepwell.materialize
// CHECK: return
#lhs = affine_map<(m, n, k) -> (m, k)>
#rhs = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>
func.func private @many_results(%x: tensor<4096x512xf32>, %w: tensor<512x512xf32>, %out: tensor<4096x512xf32>) -> tensor<4096x512xf32>
    attributes {stepwell.kernel = {bytes = 1 : i64, class = "contraction", flops = 1 : i64}} {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%out : tensor<4096x512xf32>) -> tensor<4096x512xf32>
  %y = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4096x512xf32>, tensor<512x512xf32>) outs(%f : tensor<4096x512xf32>)
      attrs = {stepwell.contraction = 0 : i64, stepwell.root = 0 : i64} {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<4096x512xf32>
  return %y : tensor<4096x512xf32>
}
