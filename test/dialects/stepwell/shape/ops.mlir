// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @shape
func.func @shape(
    %a0: tensor<?x3xf32>, %a1: tensor<2xi64>, %a2: tensor<i64>, %a3: tensor<i64>, %a4: tensor<i64>) {
  // CHECK: "stepwell.shape_of"(%{{[^ ,)]+}}) : (tensor<?x3xf32>) -> tensor<2xi64>
  %0 = "stepwell.shape_of"(%a0) : (tensor<?x3xf32>) -> tensor<2xi64>
  // CHECK: "stepwell.size_of"(%{{[^ ,)]+}}) : (tensor<?x3xf32>) -> tensor<i64>
  %1 = "stepwell.size_of"(%a0) : (tensor<?x3xf32>) -> tensor<i64>
  // CHECK: "stepwell.fill"(%{{[^ ,)]+}})
  // CHECK-SAME: {value = dense<0.000000e+00> : tensor<f32>}
  // CHECK-SAME: : (tensor<2xi64>) -> tensor<?x?xf32>
  %2 = "stepwell.fill"(%a1) {value = dense<0.0> : tensor<f32>} : (tensor<2xi64>) -> tensor<?x?xf32>
  // CHECK: "stepwell.range"(%{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}})
  // CHECK-SAME: : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %3 = "stepwell.range"(%a2, %a3, %a4) : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  // CHECK: "stepwell.border"() {high = array<i64: 1, 0>, low = array<i64: 1, 1>, shape = array<i64: 6, 8>
  // CHECK-SAME: value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<6x8xf32>
  %4 = "stepwell.border"() {shape = array<i64: 6, 8>, low = array<i64: 1, 1>, high = array<i64: 1, 0>, value = dense<0.0> : tensor<f32>} : () -> tensor<6x8xf32>
  return
}
