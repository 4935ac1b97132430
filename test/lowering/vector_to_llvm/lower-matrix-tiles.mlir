// RUN: stepwell-opt %s --stepwell-lower-matrix-tiles="target=cpu:sapphirerapids" --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --stepwell-lower-matrix-tiles="target=x86-64-v4" --split-input-file | FileCheck %s --check-prefix=WITHOUT

// Sums stay in a tile register over the loop; nothing reads vectors of two dimensions any more.

// CHECK-LABEL: func.func private @product(
// CHECK-SAME:    %[[X:.+]]: memref<16x32x4xi8>, %[[Y:.+]]: memref<32x64xi8>, %[[S:.+]]: memref<16x16xi32>)
// CHECK:         %[[SHAPES:.+]] = arith.constant dense<[1, 0,
// CHECK:         vector.store %[[SHAPES]], %[[BUFFER:.+]][
// CHECK:         llvm.call_intrinsic "llvm.x86.ldtilecfg"
// CHECK:         llvm.call_intrinsic "llvm.x86.tilezero"(%[[SUM:.+]]) : (i8)
// CHECK:         scf.for %{{.+}} = %c0 to %c32 step %c16 {
// CHECK:           llvm.call_intrinsic "llvm.x86.tileloadd64"(%[[LEFT:[^,]+]],
// CHECK:           llvm.call_intrinsic "llvm.x86.tileloadd64"(%[[RIGHT:[^,]+]],
// CHECK:           llvm.call_intrinsic "llvm.x86.tdpbusd"(%{{.+}}, %[[L:.+]], %[[R:.+]]) : (i8, i8, i8)
// CHECK-NOT:       vector.contract
// CHECK:         }
// CHECK:         llvm.call_intrinsic "llvm.x86.tilestored64"
// CHECK-NOT:     vector.transfer_write
// CHECK:         llvm.call_intrinsic "llvm.x86.tilerelease"

// Without such a unit, the products stay as they are.
// WITHOUT-LABEL: func.func private @product(
// WITHOUT:         vector.contract
// WITHOUT:         vector.transfer_write
#rows = affine_map<(m, n, k, b) -> (m, k, b)>
#columns = affine_map<(m, n, k, b) -> (k, n, b)>
#sums = affine_map<(m, n, k, b) -> (m, n)>
func.func private @product(%x: memref<16x32x4xi8>, %y: memref<32x64xi8>, %s: memref<16x16xi32>)
    attributes {stepwell.kernel = {class = "contraction"}} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0 : i8
  %zeros = arith.constant dense<0> : vector<16x16xi32>
  %sum = scf.for %k = %c0 to %c32 step %c16 iter_args(%carried = %zeros) -> (vector<16x16xi32>) {
    %a = vector.transfer_read %x[%c0, %k, %c0], %zero {in_bounds = [true, true, true]} : memref<16x32x4xi8>, vector<16x16x4xi8>
    %w = vector.transfer_read %y[%k, %c0], %zero {in_bounds = [true, true]} : memref<32x64xi8>, vector<16x64xi8>
    %grains = vector.shape_cast %w : vector<16x64xi8> to vector<16x16x4xi8>
    %left = arith.extui %a : vector<16x16x4xi8> to vector<16x16x4xi32>
    %right = arith.extsi %grains : vector<16x16x4xi8> to vector<16x16x4xi32>
    %next = vector.contract {indexing_maps = [#rows, #columns, #sums],
        iterator_types = ["parallel", "parallel", "reduction", "reduction"], kind = #vector.kind<add>}
        %left, %right, %carried : vector<16x16x4xi32>, vector<16x16x4xi32> into vector<16x16xi32>
    scf.yield %next : vector<16x16xi32>
  }
  vector.transfer_write %sum, %s[%c0, %c0] {in_bounds = [true, true]} : vector<16x16xi32>, memref<16x16xi32>
  return
}

// -----

// A contraction of vectors has fewer dimensions, and stays.
// CHECK-LABEL: func.func private @negative_vectors(
// CHECK:         vector.contract
func.func private @negative_vectors(%x: vector<4x8xf32>, %y: vector<8x16xf32>, %s: memref<4x16xf32>)
    attributes {stepwell.kernel = {class = "attention"}} {
  %c0 = arith.constant 0 : index
  %zeros = arith.constant dense<0.0> : vector<4x16xf32>
  %sum = vector.contract {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
      affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
      %x, %y, %zeros : vector<4x8xf32>, vector<8x16xf32> into vector<4x16xf32>
  vector.transfer_write %sum, %s[%c0, %c0] {in_bounds = [true, true]} : vector<4x16xf32>, memref<4x16xf32>
  return
}

// -----

// Rows of signed bytes, and numbers without signs.
// CHECK-LABEL: func.func private @signed_rows(
// CHECK:         llvm.call_intrinsic "llvm.x86.tdpbsud"
#rows = affine_map<(m, n, k, b) -> (m, k, b)>
#columns = affine_map<(m, n, k, b) -> (k, n, b)>
#sums = affine_map<(m, n, k, b) -> (m, n)>
func.func private @signed_rows(%x: memref<16x32x4xi8>, %y: memref<32x64xi8>, %s: memref<16x16xi32>)
    attributes {stepwell.kernel = {class = "contraction"}} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0 : i8
  %zeros = arith.constant dense<0> : vector<16x16xi32>
  %sum = scf.for %k = %c0 to %c32 step %c16 iter_args(%carried = %zeros) -> (vector<16x16xi32>) {
    %a = vector.transfer_read %x[%c0, %k, %c0], %zero {in_bounds = [true, true, true]} : memref<16x32x4xi8>, vector<16x16x4xi8>
    %w = vector.transfer_read %y[%k, %c0], %zero {in_bounds = [true, true]} : memref<32x64xi8>, vector<16x64xi8>
    %grains = vector.shape_cast %w : vector<16x64xi8> to vector<16x16x4xi8>
    %left = arith.extsi %a : vector<16x16x4xi8> to vector<16x16x4xi32>
    %right = arith.extui %grains : vector<16x16x4xi8> to vector<16x16x4xi32>
    %next = vector.contract {indexing_maps = [#rows, #columns, #sums],
        iterator_types = ["parallel", "parallel", "reduction", "reduction"], kind = #vector.kind<add>}
        %left, %right, %carried : vector<16x16x4xi32>, vector<16x16x4xi32> into vector<16x16xi32>
    scf.yield %next : vector<16x16xi32>
  }
  vector.transfer_write %sum, %s[%c0, %c0] {in_bounds = [true, true]} : vector<16x16xi32>, memref<16x16xi32>
  return
}
