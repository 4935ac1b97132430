// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @appended
func.func @appended(%x: tensor<2x7x4xf32>, %y: tensor<2x3x4xf32>, %table: tensor<4xi64>) {
  // CHECK: stepwell.append{{.*}} -> tensor<2x10x4xf32>
  %0 = "stepwell.append"(%x, %y, %table) {axis = 1 : i64, ends = array<i64: 0, -1>, layout = array<i64>}
    : (tensor<2x7x4xf32>, tensor<2x3x4xf32>, tensor<4xi64>) -> tensor<2x10x4xf32>
  // CHECK: stepwell.append{{.*}}layout = array<i64: 2, 3>
  %1 = "stepwell.append"(%x, %y, %table) {axis = 1 : i64, ends = array<i64: 0, 1>, layout = array<i64: 2, 3>}
    : (tensor<2x7x4xf32>, tensor<2x3x4xf32>, tensor<4xi64>) -> tensor<2x10x4xf32>
  return
}
