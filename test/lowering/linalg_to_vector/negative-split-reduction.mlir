// RUN: not stepwell-opt %s --pass-pipeline='builtin.module(stepwell-vectorize)' 2>&1 | FileCheck %s

// A schedule that tiles a reduced dimension leaves a reduction that starts from the result so far.

#row = affine_map<(d0, d1) -> (d0)>
#all = affine_map<(d0, d1) -> (d0, d1)>

// CHECK: error: {{.*}}a reduction must start from a linalg.fill in the same loops
// CHECK-NOT: this is a bug
func.func private @split(%x: tensor<4x8xf32>, %out: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel = {class = "reduction"}, stepwell.schedule = {name = "mine", vector_bytes = 32 : i64}} {
  %0 = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%out : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %1 = arith.addf %o, %a : f32
    linalg.yield %1 : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
