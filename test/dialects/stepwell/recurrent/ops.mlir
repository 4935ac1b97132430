// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @recurrent
func.func @recurrent(
    %a0: tensor<10x1x16xf32>, %a1: tensor<1x128x16xf32>, %a2: tensor<1x128x32xf32>, %a3: tensor<1x256xf32>) {
  // CHECK: "stepwell.lstm"(%{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}})
  // CHECK-SAME: {direction = "forward", operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>}
  // CHECK-SAME: : (tensor<10x1x16xf32>, tensor<1x128x16xf32>, tensor<1x128x32xf32>, tensor<1x256xf32>) ->
  // CHECK-SAME: (tensor<10x1x1x32xf32>, tensor<1x1x32xf32>, tensor<1x1x32xf32>)
  %0:3 = "stepwell.lstm"(%a0, %a1, %a2, %a3) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>, direction =
    "forward"}
    : (tensor<10x1x16xf32>, tensor<1x128x16xf32>, tensor<1x128x32xf32>, tensor<1x256xf32>) ->
    (tensor<10x1x1x32xf32>, tensor<1x1x32xf32>, tensor<1x1x32xf32>)
  return
}
