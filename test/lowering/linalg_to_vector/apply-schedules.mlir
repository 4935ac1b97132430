// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-apply-schedules{target=x86-64-v3})' | FileCheck %s

#same = affine_map<(d0, d1) -> (d0, d1)>

// A kernel with work for several blocks is cut into blocks.

// CHECK-LABEL: func.func private @large(
// CHECK-SAME: stepwell.schedule = {blocks = array<i64: 64, 0>, name = "elementwise", unroll = 4 : i64, vector_bytes = 32 : i64}
// CHECK: scf.forall (%{{.*}}) = (0) to (2048) step (64)
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<64x512xf32>)
func.func private @large(%x: tensor<2048x512xf32>, %out: tensor<2048x512xf32>) -> tensor<2048x512xf32> attributes {stepwell.kernel = {class = "elementwise"}} {
  %0 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2048x512xf32>) outs(%out : tensor<2048x512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %1 = arith.addf %a, %a : f32
    linalg.yield %1 : f32
  } -> tensor<2048x512xf32>
  return %0 : tensor<2048x512xf32>
}

// A kernel that takes a few microseconds is not cut.

// CHECK-LABEL: func.func private @negative_small(
// CHECK-NOT: scf.forall
// CHECK: return
func.func private @negative_small(%x: tensor<16x16xf32>, %out: tensor<16x16xf32>) -> tensor<16x16xf32> attributes {stepwell.kernel = {class = "elementwise"}} {
  %0 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<16x16xf32>) outs(%out : tensor<16x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %1 = arith.addf %a, %a : f32
    linalg.yield %1 : f32
  } -> tensor<16x16xf32>
  return %0 : tensor<16x16xf32>
}

// Existing schedule parameters take precedence: this is how a tuner sets them.

// CHECK-LABEL: func.func private @tuned(
// CHECK: scf.forall (%{{.*}}) = (0) to (16) step (4)
func.func private @tuned(%x: tensor<16x16xf32>, %out: tensor<16x16xf32>) -> tensor<16x16xf32> attributes {stepwell.kernel = {class = "elementwise"}, stepwell.schedule = {blocks = array<i64: 4, 0>}} {
  %0 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<16x16xf32>) outs(%out : tensor<16x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %1 = arith.addf %a, %a : f32
    linalg.yield %1 : f32
  } -> tensor<16x16xf32>
  return %0 : tensor<16x16xf32>
}
