// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-vectorize)' | FileCheck %s

#same = affine_map<(d0) -> (d0)>
#row = affine_map<(d0, d1) -> (d0, d1)>
#turned = affine_map<(d0, d1) -> (d1, d0)>
#kept = affine_map<(d0, d1) -> (d0)>

// Whole vectors, then one that is moved back so that it ends at the end of the loop.

// CHECK-LABEL: func.func private @tail(
// CHECK: %[[MAIN:.*]] = scf.for %[[I:.*]] = %c0 to %c96 step %c32 iter_args(%{{.*}}) -> (tensor<100xf32>)
// CHECK: vector.transfer_read %{{.*}}[%[[I]]], %{{.*}} {in_bounds = [true]} : tensor<100xf32>, vector<32xf32>
// CHECK: vector.transfer_read %{{.*}}[%c68], %{{.*}} {in_bounds = [true]} : tensor<100xf32>, vector<32xf32>
// CHECK: vector.transfer_write %{{.*}}, %[[MAIN]][%c68]
func.func private @tail(%x: tensor<100xf32>, %out: tensor<100xf32>) -> tensor<100xf32> attributes {stepwell.kernel = {class = "elementwise"}, stepwell.schedule = {vector_bytes = 32 : i64}} {
  %0 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel"]} ins(%x : tensor<100xf32>) outs(%out : tensor<100xf32>) {
  ^bb0(%a: f32, %o: f32):
    %1 = arith.addf %a, %a : f32
    linalg.yield %1 : f32
  } -> tensor<100xf32>
  return %0 : tensor<100xf32>
}

// Two ops over the same elements share a loop; a value between only these two is never stored.

// CHECK-LABEL: func.func private @shared(
// CHECK: scf.for
// CHECK: arith.mulf %{{.*}} : vector<32xf32>
// CHECK: arith.addf %{{.*}} : vector<32xf32>
// CHECK-NOT: scf.for
// CHECK-COUNT-5: vector.shuffle
// CHECK: tensor.insert
func.func private @shared(%x: tensor<4x64xf32>, %out: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel = {class = "reduction"}, stepwell.schedule = {vector_bytes = 32 : i64}} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x64xf32>
  %0 = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x64xf32>) outs(%e : tensor<4x64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %1 = arith.mulf %a, %a : f32
    linalg.yield %1 : f32
  } -> tensor<4x64xf32>
  %start = linalg.fill ins(%zero : f32) outs(%out : tensor<4xf32>) -> tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [#row, #kept], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<4x64xf32>) outs(%start : tensor<4xf32>) {
  ^bb0(%a: f32, %s: f32):
    %3 = arith.addf %s, %a : f32
    linalg.yield %3 : f32
  } -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// A square tile is transposed in registers: 8 rows in, three times 8 shuffles, 8 rows out.

// CHECK-LABEL: func.func private @turned(
// CHECK-COUNT-8: vector.transfer_read
// CHECK-COUNT-24: vector.shuffle
// CHECK-COUNT-8: vector.transfer_write
func.func private @turned(%x: tensor<16x24xf32>, %out: tensor<24x16xf32>) -> tensor<24x16xf32> attributes {stepwell.kernel = {class = "movement"}, stepwell.schedule = {vector_bytes = 32 : i64}} {
  %0 = linalg.generic {indexing_maps = [#turned, #row], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<16x24xf32>) outs(%out : tensor<24x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<24x16xf32>
  return %0 : tensor<24x16xf32>
}

// Four rows are merged in pairs into one.

// CHECK-LABEL: func.func private @merged(
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[}}0, 1]] : tensor<24x4xf32> into tensor<96xf32>
// CHECK-COUNT-4: vector.transfer_read %{{.*}} : tensor<4x24xf32>, vector<8xf32>
// CHECK-COUNT-3: vector.interleave
// CHECK: vector.transfer_write %{{.*}} : vector<32xf32>, tensor<96xf32>
func.func private @merged(%x: tensor<4x24xf32>, %out: tensor<24x4xf32>) -> tensor<24x4xf32> attributes {stepwell.kernel = {class = "movement"}, stepwell.schedule = {vector_bytes = 32 : i64}} {
  %0 = linalg.generic {indexing_maps = [#turned, #row], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x24xf32>) outs(%out : tensor<24x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<24x4xf32>
  return %0 : tensor<24x4xf32>
}
