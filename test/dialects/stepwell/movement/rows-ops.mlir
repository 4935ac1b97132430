// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @rows
func.func @rows(%x: tensor<9x4xf32>, %r: tensor<4xf32>, %i: tensor<i64>, %s: tensor<?x?xf32>) {
  // CHECK: stepwell.row
  %0 = "stepwell.row"(%x, %i) : (tensor<9x4xf32>, tensor<i64>) -> tensor<4xf32>
  // CHECK: stepwell.with_row
  %1 = "stepwell.with_row"(%x, %r, %i) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
  // CHECK: stepwell.with_row
  %2 = "stepwell.with_row"(%s, %r, %i) : (tensor<?x?xf32>, tensor<4xf32>, tensor<i64>) -> tensor<?x4xf32>
  return
}
