// RUN: not stepwell-opt %s --stepwell-lower-matrix-tiles="target=cpu:sapphirerapids" 2>&1 | FileCheck %s

// CHECK: sums of a matrix unit must begin with 0 or in memory
func.func private @product(%x: memref<16x16x4xi8>, %y: memref<16x16x4xi8>, %start: vector<16x16xi32>, %s: memref<16x16xi32>)
    attributes {stepwell.kernel = {class = "contraction"}} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i8
  %a = vector.transfer_read %x[%c0, %c0, %c0], %zero {in_bounds = [true, true, true]} : memref<16x16x4xi8>, vector<16x16x4xi8>
  %w = vector.transfer_read %y[%c0, %c0, %c0], %zero {in_bounds = [true, true, true]} : memref<16x16x4xi8>, vector<16x16x4xi8>
  %left = arith.extui %a : vector<16x16x4xi8> to vector<16x16x4xi32>
  %right = arith.extsi %w : vector<16x16x4xi8> to vector<16x16x4xi32>
  %sum = vector.contract {indexing_maps = [affine_map<(m, n, k, b) -> (m, k, b)>, affine_map<(m, n, k, b) -> (k, n, b)>,
      affine_map<(m, n, k, b) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"],
      kind = #vector.kind<add>}
      %left, %right, %start : vector<16x16x4xi32>, vector<16x16x4xi32> into vector<16x16xi32>
  vector.transfer_write %sum, %s[%c0, %c0] {in_bounds = [true, true]} : vector<16x16xi32>, memref<16x16xi32>
  return
}
