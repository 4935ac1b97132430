// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @activation
func.func @activation(
    %a0: tensor<4x8xf32>) {
  // CHECK: "stepwell.clip"(%{{[^ ,)]+}})
  // CHECK-SAME: {maximum = 6.000000e+00 : f64, minimum = 0.000000e+00 : f64}
  // CHECK-SAME: : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = "stepwell.clip"(%a0) {minimum = 0.0 : f64, maximum = 6.0 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.elu"(%{{[^ ,)]+}}) {alpha = 1.000000e+00 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = "stepwell.elu"(%a0) {alpha = 1.0 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.gelu"(%{{[^ ,)]+}}) {approximate = "tanh"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = "stepwell.gelu"(%a0) {approximate = "tanh"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.hard_sigmoid"(%{{[^ ,)]+}})
  // CHECK-SAME: {alpha = 2.000000e-01 : f64, beta = 5.000000e-01 : f64}
  // CHECK-SAME: : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = "stepwell.hard_sigmoid"(%a0) {alpha = 0.2 : f64, beta = 0.5 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.hard_swish"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = "stepwell.hard_swish"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.leaky_relu"(%{{[^ ,)]+}}) {alpha = 1.000000e-02 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = "stepwell.leaky_relu"(%a0) {alpha = 0.01 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.relu"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = "stepwell.relu"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.sigmoid"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %7 = "stepwell.sigmoid"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.silu"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %8 = "stepwell.silu"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.softplus"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %9 = "stepwell.softplus"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
