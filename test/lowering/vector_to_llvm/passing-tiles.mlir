// RUN: stepwell-opt %s --stepwell-lower-matrix-tiles="target=cpu:sapphirerapids" --split-input-file | FileCheck %s

// The input of 32 KiB is read again for each weight, which takes another 32 KiB: the first-level cache holds one of them.
// CHECK-LABEL: func.func private @weights_pass
// CHECK:         tileloadd64"
// CHECK:         tileloaddt164"
// CHECK:         tdpbusd
#rows = affine_map<(m, n, k, b) -> (m, k, b)>
#columns = affine_map<(m, n, k, b) -> (k, n, b)>
#sums = affine_map<(m, n, k, b) -> (m, n)>
func.func private @weights_pass(%x: memref<16x512x4xi8>, %y: memref<8x512x64xi8>, %s: memref<8x16x16xi32>)
    attributes {stepwell.kernel = {class = "contraction"}} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c512 = arith.constant 512 : index
  %zero = arith.constant 0 : i8
  %zeros = arith.constant dense<0> : vector<16x16xi32>
  scf.for %p = %c0 to %c8 step %c1 {
    %sum = scf.for %k = %c0 to %c512 step %c16 iter_args(%carried = %zeros) -> (vector<16x16xi32>) {
      %a = vector.transfer_read %x[%c0, %k, %c0], %zero {in_bounds = [true, true, true]} : memref<16x512x4xi8>, vector<16x16x4xi8>
      %w = vector.transfer_read %y[%p, %k, %c0], %zero {in_bounds = [true, true]} : memref<8x512x64xi8>, vector<16x64xi8>
      %grains = vector.shape_cast %w : vector<16x64xi8> to vector<16x16x4xi8>
      %left = arith.extui %a : vector<16x16x4xi8> to vector<16x16x4xi32>
      %right = arith.extsi %grains : vector<16x16x4xi8> to vector<16x16x4xi32>
      %next = vector.contract {indexing_maps = [#rows, #columns, #sums],
          iterator_types = ["parallel", "parallel", "reduction", "reduction"], kind = #vector.kind<add>}
          %left, %right, %carried : vector<16x16x4xi32>, vector<16x16x4xi32> into vector<16x16xi32>
      scf.yield %next : vector<16x16xi32>
    }
    vector.transfer_write %sum, %s[%p, %c0, %c0] {in_bounds = [true, true]} : vector<16x16xi32>, memref<8x16x16xi32>
  }
  return
}

// -----

// The cache holds an input and a weight of 8 KiB.
// CHECK-LABEL: func.func private @negative_both_stay
// CHECK-NOT:     tileloaddt164"
// CHECK:         return
#rows = affine_map<(m, n, k, b) -> (m, k, b)>
#columns = affine_map<(m, n, k, b) -> (k, n, b)>
#sums = affine_map<(m, n, k, b) -> (m, n)>
func.func private @negative_both_stay(%x: memref<16x128x4xi8>, %y: memref<8x128x64xi8>, %s: memref<8x16x16xi32>)
    attributes {stepwell.kernel = {class = "contraction"}} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0 : i8
  %zeros = arith.constant dense<0> : vector<16x16xi32>
  scf.for %p = %c0 to %c8 step %c1 {
    %sum = scf.for %k = %c0 to %c128 step %c16 iter_args(%carried = %zeros) -> (vector<16x16xi32>) {
      %a = vector.transfer_read %x[%c0, %k, %c0], %zero {in_bounds = [true, true, true]} : memref<16x128x4xi8>, vector<16x16x4xi8>
      %w = vector.transfer_read %y[%p, %k, %c0], %zero {in_bounds = [true, true]} : memref<8x128x64xi8>, vector<16x64xi8>
      %grains = vector.shape_cast %w : vector<16x64xi8> to vector<16x16x4xi8>
      %left = arith.extui %a : vector<16x16x4xi8> to vector<16x16x4xi32>
      %right = arith.extsi %grains : vector<16x16x4xi8> to vector<16x16x4xi32>
      %next = vector.contract {indexing_maps = [#rows, #columns, #sums],
          iterator_types = ["parallel", "parallel", "reduction", "reduction"], kind = #vector.kind<add>}
          %left, %right, %carried : vector<16x16x4xi32>, vector<16x16x4xi32> into vector<16x16xi32>
      scf.yield %next : vector<16x16xi32>
    }
    vector.transfer_write %sum, %s[%p, %c0, %c0] {in_bounds = [true, true]} : vector<16x16xi32>, memref<8x16x16xi32>
  }
  return
}

// -----

// The weight is the same for each tile of the input, and stays.
// CHECK-LABEL: func.func private @negative_inputs_pass
// CHECK-NOT:     tileloaddt164"
// CHECK:         return
#rows = affine_map<(m, n, k, b) -> (m, k, b)>
#columns = affine_map<(m, n, k, b) -> (k, n, b)>
#sums = affine_map<(m, n, k, b) -> (m, n)>
func.func private @negative_inputs_pass(%x: memref<8x16x512x4xi8>, %y: memref<512x64xi8>, %s: memref<8x16x16xi32>)
    attributes {stepwell.kernel = {class = "contraction"}} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c512 = arith.constant 512 : index
  %zero = arith.constant 0 : i8
  %zeros = arith.constant dense<0> : vector<16x16xi32>
  scf.for %p = %c0 to %c8 step %c1 {
    %sum = scf.for %k = %c0 to %c512 step %c16 iter_args(%carried = %zeros) -> (vector<16x16xi32>) {
      %a = vector.transfer_read %x[%p, %c0, %k, %c0], %zero {in_bounds = [true, true, true]} : memref<8x16x512x4xi8>, vector<16x16x4xi8>
      %w = vector.transfer_read %y[%k, %c0], %zero {in_bounds = [true, true]} : memref<512x64xi8>, vector<16x64xi8>
      %grains = vector.shape_cast %w : vector<16x64xi8> to vector<16x16x4xi8>
      %left = arith.extui %a : vector<16x16x4xi8> to vector<16x16x4xi32>
      %right = arith.extsi %grains : vector<16x16x4xi8> to vector<16x16x4xi32>
      %next = vector.contract {indexing_maps = [#rows, #columns, #sums],
          iterator_types = ["parallel", "parallel", "reduction", "reduction"], kind = #vector.kind<add>}
          %left, %right, %carried : vector<16x16x4xi32>, vector<16x16x4xi32> into vector<16x16xi32>
      scf.yield %next : vector<16x16xi32>
    }
    vector.transfer_write %sum, %s[%p, %c0, %c0] {in_bounds = [true, true]} : vector<16x16xi32>, memref<8x16x16xi32>
  }
  return
}
