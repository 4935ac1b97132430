// RUN: stepwell-opt %s --stepwell-infer-shapes | FileCheck %s

// CHECK-LABEL: func.func @refined
// CHECK-SAME: -> tensor<4x6xf32>
func.func @refined(%x: tensor<4x6xf32>) -> tensor<?x?xf32> {
  // CHECK: stepwell.relu{{.*}} -> tensor<4x6xf32>
  %0 = "stepwell.relu"(%x) : (tensor<4x6xf32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}

// CHECK-LABEL: func.func @symbols
func.func @symbols(%x: tensor<1x3x?xf32> {stepwell.dims = [1, 3, "w"]}, %w: tensor<8x3x3xf32>) -> tensor<?x?x?xf32> {
  // CHECK: stepwell.conv
  // CHECK-SAME: -> tensor<1x8x?xf32, [1, 8, "(w - 1) // 2"]>
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 2>, pads = array<i64: 0, 0>, dilations = array<i64: 1>}
    : (tensor<1x3x?xf32>, tensor<8x3x3xf32>) -> tensor<?x?x?xf32>
  return %0 : tensor<?x?x?xf32>
}

// A shape that the program computes is inferred.

// CHECK-LABEL: func.func @computed_shape
func.func @computed_shape(%x: tensor<4x6xf32>) -> tensor<?x?xf32> {
  %shape = "stepwell.shape_of"(%x) : (tensor<4x6xf32>) -> tensor<2xi64>
  %reversed = "stepwell.reverse"(%shape) {axes = array<i64: 0>} : (tensor<2xi64>) -> tensor<2xi64>
  // CHECK: stepwell.dynamic_reshape{{.*}} -> tensor<6x4xf32>
  %0 = "stepwell.dynamic_reshape"(%x, %reversed) : (tensor<4x6xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}

// CHECK-LABEL: func.func @branches
func.func @branches(%x: tensor<4x6xf32>, %c: i1) -> tensor<?x?xf32> {
  // CHECK: scf.if %{{.+}} -> (tensor<4x6xf32>)
  %0 = scf.if %c -> (tensor<?x?xf32>) {
    %1 = "stepwell.relu"(%x) : (tensor<4x6xf32>) -> tensor<?x?xf32>
    scf.yield %1 : tensor<?x?xf32>
  } else {
    %1 = "stepwell.abs"(%x) : (tensor<4x6xf32>) -> tensor<?x?xf32>
    scf.yield %1 : tensor<?x?xf32>
  }
  return %0 : tensor<?x?xf32>
}

// CHECK-LABEL: func.func @negative_branches_of_different_shape
func.func @negative_branches_of_different_shape(%x: tensor<4x6xf32>, %c: i1) -> tensor<?x?xf32> {
  // CHECK: scf.if %{{.+}} -> (tensor<?x?xf32>)
  %0 = scf.if %c -> (tensor<?x?xf32>) {
    %1 = "stepwell.relu"(%x) : (tensor<4x6xf32>) -> tensor<?x?xf32>
    scf.yield %1 : tensor<?x?xf32>
  } else {
    %1 = "stepwell.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<?x?xf32>
    scf.yield %1 : tensor<?x?xf32>
  }
  return %0 : tensor<?x?xf32>
}
