// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @dynamic
func.func @dynamic(
    %a0: tensor<4x1xf32>, %a1: tensor<3xi64>, %a2: tensor<4x8xf32>, %a3: tensor<4xi64>,
    %a4: tensor<?x4x6xf32>, %a5: tensor<2xi64>, %a6: tensor<?x8xf32>, %a7: tensor<1xi64>, %a8: tensor<1xi64>,
    %a9: tensor<1xi64>) {
  // CHECK: "stepwell.dynamic_broadcast_to"(%{{[^ ,)]+}}, %{{[^ ,)]+}})
  // CHECK-SAME: : (tensor<4x1xf32>, tensor<3xi64>) -> tensor<?x4x?xf32>
  %0 = "stepwell.dynamic_broadcast_to"(%a0, %a1) : (tensor<4x1xf32>, tensor<3xi64>) -> tensor<?x4x?xf32>
  // CHECK: "stepwell.dynamic_pad"(%{{[^ ,)]+}}, %{{[^ ,)]+}})
  // CHECK-SAME: {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
  // CHECK-SAME: : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<?x?xf32>
  %1 = "stepwell.dynamic_pad"(%a2, %a3) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
    : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<?x?xf32>
  // CHECK: "stepwell.dynamic_reshape"(%{{[^ ,)]+}}, %{{[^ ,)]+}})
  // CHECK-SAME: : (tensor<?x4x6xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  %2 = "stepwell.dynamic_reshape"(%a4, %a5) : (tensor<?x4x6xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  // CHECK: "stepwell.dynamic_slice"(%{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}})
  // CHECK-SAME: {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>}
  // CHECK-SAME: : (tensor<?x8xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?x?xf32>
  %3 = "stepwell.dynamic_slice"(%a6, %a7, %a8, %a9) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>}
    : (tensor<?x8xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?x?xf32>
  return
}
