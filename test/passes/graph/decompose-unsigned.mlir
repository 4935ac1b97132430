// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-decompose)' | FileCheck %s

// CHECK-LABEL: func.func @unsigned
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xui8>, %[[Y:.*]]: tensor<8x2xui8>)
// CHECK: %[[L:.*]] = "stepwell.bitcast"(%[[X]]) {dtype = i8}
// CHECK: %[[R:.*]] = "stepwell.bitcast"(%[[Y]]) {dtype = i8}
// CHECK: %[[P:.*]] = "stepwell.matmul"(%[[L]], %[[R]]) {{.*}} -> tensor<4x2xi8>
// CHECK: %[[U:.*]] = "stepwell.bitcast"(%[[P]]) {dtype = ui8}
// CHECK: return %[[U]]
func.func @unsigned(%x: tensor<4x8xui8>, %y: tensor<8x2xui8>) -> tensor<4x2xui8> {
  %0 = "stepwell.matmul"(%x, %y) : (tensor<4x8xui8>, tensor<8x2xui8>) -> tensor<4x2xui8>
  return %0 : tensor<4x2xui8>
}

// CHECK-LABEL: func.func @negative_signed
// CHECK-NOT: bitcast
// CHECK: return
func.func @negative_signed(%x: tensor<4x8xi8>, %y: tensor<8x2xi8>) -> tensor<4x2xi8> {
  %0 = "stepwell.matmul"(%x, %y) : (tensor<4x8xi8>, tensor<8x2xi8>) -> tensor<4x2xi8>
  return %0 : tensor<4x2xi8>
}
