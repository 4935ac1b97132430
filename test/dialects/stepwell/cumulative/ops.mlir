// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @cumulative
func.func @cumulative(%a0: tensor<4x100xf32>, %a1: tensor<?x3xi64>) {
  // CHECK: "stepwell.cumulative"(%{{[^ ,)]+}}) {axis = 1 : i64} : (tensor<4x100xf32>) -> tensor<4x100xf32>
  %0 = "stepwell.cumulative"(%a0) {axis = 1 : i64} : (tensor<4x100xf32>) -> tensor<4x100xf32>
  // CHECK: "stepwell.cumulative"(%{{[^ ,)]+}}) {axis = 0 : i64, exclusive = true, mode = "product", reverse = true} : (tensor<?x3xi64>) -> tensor<?x3xi64>
  %1 = "stepwell.cumulative"(%a1) {axis = 0 : i64, exclusive = true, mode = "product", reverse = true} : (tensor<?x3xi64>) -> tensor<?x3xi64>
  return
}
