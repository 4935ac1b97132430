// RUN: stepwell-opt %s --stepwell-dce | FileCheck %s

// CHECK-LABEL: func.func @chain
// CHECK-SAME: (%[[X:.+]]: tensor<4xf32>)
func.func @chain(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: return %[[X]]
  %0 = "stepwell.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "stepwell.tanh"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %x : tensor<4xf32>
}

// CHECK-LABEL: func.func @dead_branch
func.func @dead_branch(%x: tensor<4xf32>, %flag: tensor<i1>) -> tensor<4xf32> {
  // CHECK-NEXT: return
  %c = tensor.extract %flag[] : tensor<i1>
  %0 = scf.if %c -> (tensor<4xf32>) {
    %1 = "stepwell.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %x : tensor<4xf32>
}

// CHECK-LABEL: func.func @negative_one_result_is_read
func.func @negative_one_result_is_read(%x: tensor<2x1x3xf32>, %w: tensor<1x8x3xf32>, %r: tensor<1x8x2xf32>) -> tensor<1x1x2xf32> {
  // CHECK-NEXT: stepwell.lstm
  %y, %h, %c = "stepwell.lstm"(%x, %w, %r) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>}
    : (tensor<2x1x3xf32>, tensor<1x8x3xf32>, tensor<1x8x2xf32>) -> (tensor<2x1x1x2xf32>, tensor<1x1x2xf32>, tensor<1x1x2xf32>)
  return %h : tensor<1x1x2xf32>
}
