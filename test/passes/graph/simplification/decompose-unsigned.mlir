// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-decompose)' | FileCheck %s

// CHECK-LABEL: func.func @unsigned
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xui16>, %[[Y:.*]]: tensor<8x2xui16>)
// CHECK: %[[L:.*]] = "stepwell.bitcast"(%[[X]]) {dtype = i16}
// CHECK: %[[R:.*]] = "stepwell.bitcast"(%[[Y]]) {dtype = i16}
// CHECK: %[[P:.*]] = "stepwell.matmul"(%[[L]], %[[R]]) {{.*}} -> tensor<4x2xi16>
// CHECK: %[[U:.*]] = "stepwell.bitcast"(%[[P]]) {dtype = ui16}
// CHECK: return %[[U]]
func.func @unsigned(%x: tensor<4x8xui16>, %y: tensor<8x2xui16>) -> tensor<4x2xui16> {
  %0 = "stepwell.matmul"(%x, %y) : (tensor<4x8xui16>, tensor<8x2xui16>) -> tensor<4x2xui16>
  return %0 : tensor<4x2xui16>
}

// CHECK-LABEL: func.func @negative_signed
// CHECK-NOT: bitcast
// CHECK: return
func.func @negative_signed(%x: tensor<4x8xi16>, %y: tensor<8x2xi16>) -> tensor<4x2xi16> {
  %0 = "stepwell.matmul"(%x, %y) : (tensor<4x8xi16>, tensor<8x2xi16>) -> tensor<4x2xi16>
  return %0 : tensor<4x2xi16>
}
