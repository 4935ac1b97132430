// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-lower-vectors)' | FileCheck %s

// A contraction is one fused multiply-add per row, with the scalar read from memory where it is needed.

// CHECK-LABEL: func.func @contraction
// CHECK-SAME: %[[A:.*]]: memref<2x1xf32>
// CHECK-NOT: vector.contract
// CHECK: memref.load %[[A]]
// CHECK: memref.load %[[A]]
// CHECK: vector.load {{.*}} vector<16xf32>
// CHECK: vector.broadcast %{{.*}} : f32 to vector<16xf32>
// CHECK: vector.fma
// CHECK: vector.fma
// CHECK-NOT: vector.fma
func.func @contraction(%a: memref<2x1xf32>, %b: memref<1x16xf32>, %acc: vector<2x16xf32>) -> vector<2x16xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %x = vector.transfer_read %a[%c0, %c0], %zero {in_bounds = [true, true]} : memref<2x1xf32>, vector<2x1xf32>
  %y = vector.transfer_read %b[%c0, %c0], %zero {in_bounds = [true, true]} : memref<1x16xf32>, vector<1x16xf32>
  %r = vector.contract {
    indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
    iterator_types = ["parallel", "parallel", "reduction"]
  } %x, %y, %acc : vector<2x1xf32>, vector<1x16xf32> into vector<2x16xf32>
  return %r : vector<2x16xf32>
}

// The sum may be contracted with a product; ops with their own flags keep them, and integers have none.

// CHECK-LABEL: func.func @negative_flags
// CHECK: arith.addf %{{.*}} fastmath<contract> : vector<4xf32>
// CHECK: arith.mulf %{{.*}} fastmath<nnan> : vector<4xf32>
// CHECK: arith.addi %{{.*}} : i32
func.func @negative_flags(%x: vector<4xf32>, %i: i32) -> (vector<4xf32>, i32) {
  %0 = arith.addf %x, %x : vector<4xf32>
  %1 = arith.mulf %0, %x fastmath<nnan> : vector<4xf32>
  %2 = arith.addi %i, %i : i32
  return %1, %2 : vector<4xf32>, i32
}
