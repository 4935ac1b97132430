// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @trigonometry
func.func @trigonometry(%a0: tensor<4x8xf32>) {
  // CHECK: "stepwell.acos"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = "stepwell.acos"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.acosh"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = "stepwell.acosh"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.asin"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = "stepwell.asin"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.asinh"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = "stepwell.asinh"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.atan"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = "stepwell.atan"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.atanh"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = "stepwell.atanh"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.cosh"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = "stepwell.cosh"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.sinh"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %7 = "stepwell.sinh"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.tan"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %8 = "stepwell.tan"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
