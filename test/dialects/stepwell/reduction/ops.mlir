// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @reduction
func.func @reduction(
    %a0: tensor<4x8xf32>) {
  // CHECK: "stepwell.reduce_sum"(%{{[^ ,)]+}}) {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %0 = "stepwell.reduce_sum"(%a0) {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  // CHECK: "stepwell.reduce_mean"(%{{[^ ,)]+}}) {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %1 = "stepwell.reduce_mean"(%a0) {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  // CHECK: "stepwell.reduce_prod"(%{{[^ ,)]+}}) {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %2 = "stepwell.reduce_prod"(%a0) {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  // CHECK: "stepwell.reduce_max"(%{{[^ ,)]+}}) {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %3 = "stepwell.reduce_max"(%a0) {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  // CHECK: "stepwell.reduce_min"(%{{[^ ,)]+}}) {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %4 = "stepwell.reduce_min"(%a0) {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  // CHECK: "stepwell.argmax"(%{{[^ ,)]+}}) {axis = 1 : i64, keepdims = false} : (tensor<4x8xf32>) -> tensor<4xi64>
  %5 = "stepwell.argmax"(%a0) {axis = 1 : i64, keepdims = false} : (tensor<4x8xf32>) -> tensor<4xi64>
  return
}
