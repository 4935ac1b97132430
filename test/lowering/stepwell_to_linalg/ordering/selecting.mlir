// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg)' | FileCheck %s

// 64 conditions become a word; the indices of the bits of each byte are read from a table, and written as a vector.

// CHECK-LABEL: func.func private @nonzero(
// CHECK: scf.for
// CHECK: vector.bitcast %{{.*}} : vector<64xi1> to vector<1xi64>
// CHECK: scf.if
// CHECK: vector.transfer_read {{.*}} : tensor<2048xi8>, vector<8xi8>
// CHECK: vector.transfer_write {{.*}} : vector<8xi32>
// CHECK: math.ctpop
// CHECK: arith.divui {{.*}} : vector<16xi32>
// CHECK: vector.transfer_write {{.*}} : vector<16xi64>
func.func private @nonzero(%x: tensor<20x10xi1>) -> tensor<2x200xi64> attributes {stepwell.kernel = {class = "selection"}} {
  %0 = "stepwell.nonzero"(%x) : (tensor<20x10xi1>) -> tensor<2x200xi64>
  return %0 : tensor<2x200xi64>
}

// An empty result takes no loop.

// CHECK-LABEL: func.func private @negative_none(
// CHECK-NOT: scf.for
// CHECK: return
func.func private @negative_none(%x: tensor<0x10xi1>) -> tensor<2x0xi64> attributes {stepwell.kernel = {class = "selection"}} {
  %0 = "stepwell.nonzero"(%x) : (tensor<0x10xi1>) -> tensor<2x0xi64>
  return %0 : tensor<2x0xi64>
}

// CHECK-LABEL: func.func private @compress(
// CHECK: scf.forall
// CHECK: scf.for
// CHECK: tensor.extract
// CHECK: tensor.extract_slice
func.func private @compress(%x: tensor<2x8x16xf32>, %c: tensor<8xi1>) -> tensor<2x8x16xf32> attributes {stepwell.kernel = {class = "selection"}} {
  %0 = "stepwell.compress"(%x, %c) {axis = 1 : i64} : (tensor<2x8x16xf32>, tensor<8xi1>) -> tensor<2x8x16xf32>
  return %0 : tensor<2x8x16xf32>
}
