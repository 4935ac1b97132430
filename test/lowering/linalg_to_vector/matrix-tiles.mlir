// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-apply-schedules{target=cpu:sapphirerapids},stepwell-vectorize)' | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-apply-schedules{target=x86-64-v4},stepwell-vectorize)' | FileCheck %s --check-prefix=VECTORS

#input = affine_map<(m, p, l, k, b) -> (m, k, b)>
#weight = affine_map<(m, p, l, k, b) -> (p, k, l * 4 + b)>
#result = affine_map<(m, p, l, k, b) -> (m, p, l)>
#same = affine_map<(m, p, l) -> (m, p, l)>

// Two by two tiles of sums are carried over the reduction, 16 grains of four bytes at a time. The epilogue reads them
// from memory, four rows at a time.

// CHECK-LABEL: func.func private @product(
// CHECK-SAME:    bytes_method = "amx"
// The rows of a tile work on all panels of a weight that stays in the cache before the next rows do.
// CHECK:         scf.forall (%{{.+}}, %{{.+}}) = (0, 0) to (256, 8) step (32, 2)
// CHECK:         scf.for %{{.+}} to %c2 step %c1
// CHECK:         %[[SUMS:.+]]:4 = scf.for %[[K:.+]] = %c0 to %c64 step %c16 {{.+}} -> (vector<16x16xi32>, vector<16x16xi32>, vector<16x16xi32>, vector<16x16xi32>)
// CHECK:           vector.transfer_read {{.+}} vector<16x16x4xi8>
// CHECK:           vector.transfer_read {{.+}} vector<16x64xi8>
// CHECK-COUNT-4:   vector.contract {{.+}} vector<16x16x4xi32>, vector<16x16x4xi32> into vector<16x16xi32>
// CHECK-COUNT-4: vector.transfer_write %[[SUMS]]#{{.}}, {{.+}} vector<16x16xi32>, tensor<32x1x32xi32>
// CHECK:         scf.for %{{.+}} = %c0 to %c32 step %c4
// CHECK:           arith.sitofp {{.+}} : vector<32xi32> to vector<32xf32>

// VECTORS-LABEL: func.func private @product(
// VECTORS-NOT:     vector.contract
// VECTORS:         return
func.func private @product(%x: tensor<256x64x4xi8>, %w: tensor<8x64x128xi8>, %out: tensor<256x8x32xf32>) -> tensor<256x8x32xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %zero = arith.constant 0 : i32
  %empty = tensor.empty() : tensor<256x8x32xi32>
  %start = linalg.fill ins(%zero : i32) outs(%empty : tensor<256x8x32xi32>) -> tensor<256x8x32xi32>
  %sum = linalg.generic {indexing_maps = [#input, #weight, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<256x64x4xi8>, tensor<8x64x128xi8>) outs(%start : tensor<256x8x32xi32>)
      attrs = {stepwell.contraction = 0 : i64, stepwell.grain = 4 : i64} {
  ^bb0(%a: i8, %b: i8, %s: i32):
    %0 = arith.extui %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %s, %2 : i32
    linalg.yield %3 : i32
  } -> tensor<256x8x32xi32>
  %result = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%sum : tensor<256x8x32xi32>) outs(%out : tensor<256x8x32xf32>) attrs = {stepwell.root = 0 : i64} {
  ^bb0(%s: i32, %o: f32):
    %0 = arith.sitofp %s : i32 to f32
    linalg.yield %0 : f32
  } -> tensor<256x8x32xf32>
  return %result : tensor<256x8x32xf32>
}

// A reduction that cannot be cut into long steps is computed in vectors.

// CHECK-LABEL: func.func private @negative_short_steps(
// CHECK-SAME:    bytes_method = "dot"
// CHECK-NOT:     vector.contract
// CHECK:         return
func.func private @negative_short_steps(%x: tensor<64x37x4xi8>, %w: tensor<1x37x128xi8>, %out: tensor<64x1x32xi32>) -> tensor<64x1x32xi32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %zero = arith.constant 0 : i32
  %start = linalg.fill ins(%zero : i32) outs(%out : tensor<64x1x32xi32>) -> tensor<64x1x32xi32>
  %sum = linalg.generic {indexing_maps = [#input, #weight, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<64x37x4xi8>, tensor<1x37x128xi8>) outs(%start : tensor<64x1x32xi32>)
      attrs = {stepwell.contraction = 0 : i64, stepwell.grain = 4 : i64, stepwell.root = 0 : i64} {
  ^bb0(%a: i8, %b: i8, %s: i32):
    %0 = arith.extui %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %s, %2 : i32
    linalg.yield %3 : i32
  } -> tensor<64x1x32xi32>
  return %sum : tensor<64x1x32xi32>
}
