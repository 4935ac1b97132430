// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @bits
func.func @bits(%x: tensor<4x8xf32>, %i: tensor<4x8xi32>, %j: tensor<8xi32>, %b: tensor<4xui8>) {
  // CHECK: "stepwell.bitcast"(%{{[^ ,)]+}}) {dtype = i32} : (tensor<4x8xf32>) -> tensor<4x8xi32>
  %0 = "stepwell.bitcast"(%x) {dtype = i32} : (tensor<4x8xf32>) -> tensor<4x8xi32>
  // CHECK: "stepwell.bitcast"(%{{[^ ,)]+}}) {dtype = f8E4M3FN} : (tensor<4xui8>) -> tensor<4xf8E4M3FN>
  %1 = "stepwell.bitcast"(%b) {dtype = f8E4M3FN} : (tensor<4xui8>) -> tensor<4xf8E4M3FN>
  // CHECK: "stepwell.shift_left"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) : (tensor<4x8xi32>, tensor<8xi32>) -> tensor<4x8xi32>
  %2 = "stepwell.shift_left"(%i, %j) : (tensor<4x8xi32>, tensor<8xi32>) -> tensor<4x8xi32>
  // CHECK: "stepwell.shift_right"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) : (tensor<4x8xi32>, tensor<8xi32>) -> tensor<4x8xi32>
  %3 = "stepwell.shift_right"(%i, %j) : (tensor<4x8xi32>, tensor<8xi32>) -> tensor<4x8xi32>
  return
}
