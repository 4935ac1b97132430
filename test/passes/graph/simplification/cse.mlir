// RUN: stepwell-opt %s --stepwell-cse | FileCheck %s

// CHECK-LABEL: func.func @either_order
func.func @either_order(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[SUM:.+]] = "stepwell.add"
  %0 = "stepwell.add"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = "stepwell.add"(%y, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: "stepwell.mul"(%[[SUM]], %[[SUM]])
  %2 = "stepwell.mul"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// CHECK-LABEL: func.func @negative_attributes
func.func @negative_attributes(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK-COUNT-2: stepwell.softmax
  %0 = "stepwell.softmax"(%x) {axis = 0 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "stepwell.softmax"(%x) {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = "stepwell.sub"(%0, %1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// A branch sees values computed before it; the other branch and later code do not see values in it.

// CHECK-LABEL: func.func @regions
func.func @regions(%x: tensor<4xf32>, %c: i1) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[EXP:.+]] = "stepwell.exp"
  %0 = "stepwell.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = scf.if %c -> (tensor<4xf32>) {
    // CHECK-NEXT: scf.if
    // CHECK-NEXT: "stepwell.tanh"(%[[EXP]])
    %2 = "stepwell.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %3 = "stepwell.tanh"(%2) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %3 : tensor<4xf32>
  } else {
    // CHECK: "stepwell.tanh"(%[[EXP]])
    %3 = "stepwell.tanh"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %3 : tensor<4xf32>
  }
  // CHECK: "stepwell.tanh"(%[[EXP]])
  %4 = "stepwell.tanh"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1, %4 : tensor<4xf32>, tensor<4xf32>
}

// A value that is computed again, so that it is not kept for the backward pass, stays; a second copy of it does not.

// CHECK-LABEL: func.func @negative_again
func.func @negative_again(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[FIRST:.+]] = "stepwell.exp"
  %0 = "stepwell.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("exp")
  // CHECK-NEXT: %[[AGAIN:.+]] = "stepwell.exp"
  %1 = "stepwell.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("exp.again")
  %2 = "stepwell.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("exp.again")
  // CHECK-NEXT: return %[[FIRST]], %[[AGAIN]], %[[AGAIN]]
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
