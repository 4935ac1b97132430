// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-apply-schedules{target=x86-64-v3})' | FileCheck %s

// A kernel may name its own schedule.

#same = affine_map<(d0, d1) -> (d0, d1)>

module attributes {transform.with_named_sequence} {
  transform.named_sequence @columns(%kernel: !transform.any_op {transform.readonly}) {
    %op = transform.structured.match ops{["linalg.generic"]} in %kernel : (!transform.any_op) -> !transform.any_op
    %tiled, %loop = transform.structured.tile_using_for %op tile_sizes [0, 4] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }

  // CHECK-LABEL: func.func private @tiled_by_hand(
  // CHECK-SAME: stepwell.schedule = {name = "columns", unroll = 4 : i64, vector_bytes = 32 : i64}
  // CHECK: scf.for
  // CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<16x4xf32>)
  func.func private @tiled_by_hand(%x: tensor<16x16xf32>, %out: tensor<16x16xf32>) -> tensor<16x16xf32> attributes {stepwell.kernel = {class = "elementwise"}, stepwell.schedule = @columns} {
    %0 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<16x16xf32>) outs(%out : tensor<16x16xf32>) {
    ^bb0(%a: f32, %o: f32):
      %1 = arith.addf %a, %a : f32
      linalg.yield %1 : f32
    } -> tensor<16x16xf32>
    return %0 : tensor<16x16xf32>
  }

  // Another kernel gets the schedule of its class.
  // CHECK-LABEL: func.func private @tiled_as_usual(
  // CHECK-SAME: stepwell.schedule = {{{.*}}name = "elementwise"
  // CHECK-NOT: tensor<16x4xf32>
  func.func private @tiled_as_usual(%x: tensor<16x16xf32>, %out: tensor<16x16xf32>) -> tensor<16x16xf32> attributes {stepwell.kernel = {class = "elementwise"}} {
    %0 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<16x16xf32>) outs(%out : tensor<16x16xf32>) {
    ^bb0(%a: f32, %o: f32):
      %1 = arith.addf %a, %a : f32
      linalg.yield %1 : f32
    } -> tensor<16x16xf32>
    return %0 : tensor<16x16xf32>
  }
}
