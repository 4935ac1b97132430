// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @selecting
func.func @selecting(%m: tensor<4x5xi1>, %x: tensor<4x5xf32>, %c: tensor<3xi1>) {
  // CHECK: "stepwell.nonzero"(%{{[^ ,)]+}}) : (tensor<4x5xi1>) -> tensor<2x20xi64>
  %0 = "stepwell.nonzero"(%m) : (tensor<4x5xi1>) -> tensor<2x20xi64>
  // CHECK: "stepwell.compress"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) {axis = 1 : i64} : (tensor<4x5xf32>, tensor<3xi1>) -> tensor<4x5xf32>
  %1 = "stepwell.compress"(%x, %c) {axis = 1 : i64} : (tensor<4x5xf32>, tensor<3xi1>) -> tensor<4x5xf32>
  return
}
