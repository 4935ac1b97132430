// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @resizing
func.func @resizing(
    %a0: tensor<1x8x?x?xf32>, %a1: tensor<4xf32>, %a2: tensor<1x8x20x20xf32>,
    %i: tensor<4x7xi64>, %w: tensor<4x7xf32>) {
  // CHECK: "stepwell.dynamic_resize"(%{{[^ ,)]+}}, %{{[^ ,)]+}})
  // CHECK-SAME: {mode = "linear", operandSegmentSizes = array<i32: 1, 1, 0>}
  // CHECK-SAME: : (tensor<1x8x?x?xf32>, tensor<4xf32>) -> tensor<?x?x?x?xf32>
  %0 = "stepwell.dynamic_resize"(%a0, %a1) {operandSegmentSizes = array<i32: 1, 1, 0>, mode = "linear"}
    : (tensor<1x8x?x?xf32>, tensor<4xf32>) -> tensor<?x?x?x?xf32>
  // CHECK: "stepwell.resize"(%{{[^ ,)]+}})
  // CHECK-SAME: {coordinates = "asymmetric", mode = "nearest", nearest = "floor", scales =
  // CHECK-SAME: dense<[1.000000e+00, 1.000000e+00, 2.000000e+00, 2.000000e+00]> : tensor<4xf32>, sizes =
  // CHECK-SAME: array<i64: 1, 8, 40, 40>}
  // CHECK-SAME: : (tensor<1x8x20x20xf32>) -> tensor<1x8x40x40xf32>
  %1 = "stepwell.resize"(%a2) {sizes = array<i64: 1, 8, 40, 40>, scales = dense<[1.0, 1.0, 2.0, 2.0]> :
    tensor<4xf32>, mode = "nearest", coordinates = "asymmetric", nearest = "floor"}
    : (tensor<1x8x20x20xf32>) -> tensor<1x8x40x40xf32>
  // CHECK: "stepwell.resample"(%{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}}) {axis = 3 : i64}
  // CHECK-SAME: : (tensor<1x8x20x20xf32>, tensor<4x7xi64>, tensor<4x7xf32>) -> tensor<1x8x20x7xf32>
  %2 = "stepwell.resample"(%a2, %i, %w) {axis = 3 : i64}
    : (tensor<1x8x20x20xf32>, tensor<4x7xi64>, tensor<4x7xf32>) -> tensor<1x8x20x7xf32>
  return
}
