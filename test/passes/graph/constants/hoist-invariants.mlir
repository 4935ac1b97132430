// RUN: stepwell-opt %s --split-input-file --stepwell-hoist-invariants | FileCheck %s

// Ops that leave the inner loop leave the outer one too.
// CHECK-LABEL: func.func @main
// CHECK:         %[[T:.+]] = "stepwell.transpose"
// CHECK-NEXT:    %[[E:.+]] = "stepwell.exp"(%[[T]])
// CHECK:         scf.for
// CHECK:           scf.for
// CHECK-NEXT:        "stepwell.matmul"(%{{.+}}, %[[E]])
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %x) -> (tensor<4x4xf32>) {
    %q = scf.for %j = %c0 to %c9 step %c1 iter_args(%t = %s) -> (tensor<4x4xf32>) {
      %0 = "stepwell.transpose"(%w) {permutation = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %1 = "stepwell.exp"(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %2 = "stepwell.matmul"(%t, %1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      scf.yield %2 : tensor<4x4xf32>
    }
    scf.yield %q : tensor<4x4xf32>
  }
  return %r : tensor<4x4xf32>
}

// -----

// Values that change between iterations stay, and so do the ops of a branch that may not be taken.
// CHECK-LABEL: func.func @negative_varying
// CHECK:         scf.while
// CHECK:           "stepwell.exp"
// CHECK:           scf.if
// CHECK-NEXT:        "stepwell.neg"
func.func @negative_varying(%x: tensor<4xf32>, %y: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
  %r = scf.while (%s = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    scf.condition(%c) %s : tensor<4xf32>
  } do {
  ^bb0(%s: tensor<4xf32>):
    %0 = "stepwell.exp"(%s) : (tensor<4xf32>) -> tensor<4xf32>
    %q = scf.if %c -> tensor<4xf32> {
      %1 = "stepwell.neg"(%y) : (tensor<4xf32>) -> tensor<4xf32>
      scf.yield %1 : tensor<4xf32>
    } else {
      scf.yield %0 : tensor<4xf32>
    }
    scf.yield %q : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
