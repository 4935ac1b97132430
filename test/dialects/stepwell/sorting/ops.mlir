// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @sorting
func.func @sorting(%a0: tensor<4x100xf32>, %a1: tensor<?x3xi8>, %n: tensor<i64>) {
  // CHECK: "stepwell.top_k"(%{{[^ ,)]+}}) {k = 5 : i64} : (tensor<4x100xf32>) -> tensor<4x5xi64>
  %0 = "stepwell.top_k"(%a0) {k = 5 : i64} : (tensor<4x100xf32>) -> tensor<4x5xi64>
  // CHECK: "stepwell.top_k"(%{{[^ ,)]+}}) {k = 2 : i64, largest = false} : (tensor<?x3xi8>) -> tensor<?x2xi64>
  %1 = "stepwell.top_k"(%a1) {k = 2 : i64, largest = false} : (tensor<?x3xi8>) -> tensor<?x2xi64>
  // CHECK: "stepwell.top_k"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) {extent = 1 : i64, k = 5 : i64} : (tensor<4x100xf32>, tensor<i64>) -> tensor<4x5xi64>
  %2 = "stepwell.top_k"(%a0, %n) {k = 5 : i64, extent = 1 : i64} : (tensor<4x100xf32>, tensor<i64>) -> tensor<4x5xi64>
  return
}
