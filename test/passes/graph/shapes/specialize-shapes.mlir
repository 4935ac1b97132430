// RUN: stepwell-opt %s --pass-pipeline="builtin.module(stepwell-specialize-shapes{shapes=2x8,_})" | FileCheck %s
// RUN: not stepwell-opt %s --pass-pipeline="builtin.module(stepwell-specialize-shapes{shapes=2x9,_})" 2>&1 | FileCheck %s --check-prefix=STATIC
// RUN: not stepwell-opt %s --pass-pipeline="builtin.module(stepwell-specialize-shapes{shapes=2x8,3})" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not stepwell-opt %s --pass-pipeline="builtin.module(stepwell-specialize-shapes{shapes=2x8})" 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not stepwell-opt %s --pass-pipeline="builtin.module(stepwell-specialize-shapes{shapes=2xn,_})" 2>&1 | FileCheck %s --check-prefix=SPELLING
// RUN: not stepwell-opt %s --pass-pipeline="builtin.module(stepwell-specialize-shapes{shapes=2x8x1,_})" 2>&1 | FileCheck %s --check-prefix=RANK

// The second input is bound through the symbol that it shares with the first.

// CHECK: func.func @main(%{{.+}}: tensor<2x8xf32> {{{.+}}}, %{{.+}}: tensor<2xf32> {{{.+}}}) -> tensor<8x2xf32>
// STATIC: input 0 has a dimension of 8 elements, which cannot be 9
// TWICE: dimension 'n' is 2, but input 1 has 3 elements there
// COUNT: 1 shape given for 2 inputs
// SPELLING: shape '2xn' of input 0 must be spelt like 1x3x224x224, or _
// RANK: input 0 has 2 dimensions, but shape 2x8x1 has 3
func.func @main(%x: tensor<?x8xf32> {stepwell.dims = ["n", 8]}, %y: tensor<?xf32> {stepwell.dims = ["n"]}) -> tensor<?x?xf32> {
  // CHECK: stepwell.transpose{{.*}} -> tensor<8x2xf32>
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<?x8xf32>) -> tensor<8x?xf32>
  // CHECK: stepwell.add{{.*}} -> tensor<8x2xf32>
  %1 = "stepwell.add"(%0, %y) : (tensor<8x?xf32>, tensor<?xf32>) -> tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}
