// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @pooling
func.func @pooling(
    %a0: tensor<1x8x40x40xf32>) {
  // CHECK: "stepwell.max_pool"(%{{[^ ,)]+}})
  // CHECK-SAME: {dilations = array<i64: 1, 1>, kernel = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, strides =
  // CHECK-SAME: array<i64: 2, 2>}
  // CHECK-SAME: : (tensor<1x8x40x40xf32>) -> tensor<1x8x20x20xf32>
  %0 = "stepwell.max_pool"(%a0) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads =
    array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x8x40x40xf32>) -> tensor<1x8x20x20xf32>
  // CHECK: "stepwell.average_pool"(%{{[^ ,)]+}})
  // CHECK-SAME: {dilations = array<i64: 1, 1>, kernel = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, strides =
  // CHECK-SAME: array<i64: 2, 2>}
  // CHECK-SAME: : (tensor<1x8x40x40xf32>) -> tensor<1x8x20x20xf32>
  %1 = "stepwell.average_pool"(%a0) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads =
    array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x8x40x40xf32>) -> tensor<1x8x20x20xf32>
  // CHECK: "stepwell.max_pool_indices"(%{{[^ ,)]+}})
  // CHECK-SAME: : (tensor<1x8x40x40xf32>) -> tensor<1x8x20x20xi64>
  %2 = "stepwell.max_pool_indices"(%a0) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads =
    array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x8x40x40xf32>) -> tensor<1x8x20x20xi64>
  // CHECK: "stepwell.sum_pool"(%{{[^ ,)]+}})
  // CHECK-SAME: : (tensor<1x8x40x40xf32>) -> tensor<1x8x20x20xf32>
  %3 = "stepwell.sum_pool"(%a0) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads =
    array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x8x40x40xf32>) -> tensor<1x8x20x20xf32>
  return
}
