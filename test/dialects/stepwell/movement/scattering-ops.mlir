// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @scattering
func.func @scattering(%x: tensor<8x4xf32>, %i: tensor<3xi64>, %u: tensor<3x4xf32>, %j: tensor<8x5xi32>, %v: tensor<8x5xf32>, %n: tensor<i64>) {
  // CHECK: "stepwell.scatter"(%{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}}) {axis = 0 : i64, reduction = "add"}
  // CHECK-SAME: : (tensor<8x4xf32>, tensor<3xi64>, tensor<3x4xf32>) -> tensor<8x4xf32>
  %0 = "stepwell.scatter"(%x, %i, %u) {axis = 0 : i64, reduction = "add"}
    : (tensor<8x4xf32>, tensor<3xi64>, tensor<3x4xf32>) -> tensor<8x4xf32>
  // CHECK: "stepwell.scatter"(%{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}}) {axis = -1 : i64}
  // CHECK-SAME: : (tensor<8x4xf32>, tensor<8x5xi32>, tensor<8x5xf32>) -> tensor<8x4xf32>
  %1 = "stepwell.scatter"(%x, %j, %v) {axis = -1 : i64}
    : (tensor<8x4xf32>, tensor<8x5xi32>, tensor<8x5xf32>) -> tensor<8x4xf32>
  // CHECK: "stepwell.scatter"(%{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}}) {axis = 0 : i64, extent = 2 : i64}
  // CHECK-SAME: : (tensor<8x4xf32>, tensor<3xi64>, tensor<3x4xf32>, tensor<i64>) -> tensor<8x4xf32>
  %2 = "stepwell.scatter"(%x, %i, %u, %n) {axis = 0 : i64, extent = 2 : i64}
    : (tensor<8x4xf32>, tensor<3xi64>, tensor<3x4xf32>, tensor<i64>) -> tensor<8x4xf32>
  return
}
