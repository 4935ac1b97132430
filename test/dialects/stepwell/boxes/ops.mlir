// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @boxes
func.func @boxes(%b: tensor<1x50x4xf32>, %s: tensor<1x3x50xf32>, %n: tensor<i64>, %t: tensor<f32>) {
  // CHECK: "stepwell.suppress"(%{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}}) {{.*}}most = 10 : i64{{.*}} -> tensor<1x3x11xi64>
  %0 = "stepwell.suppress"(%b, %s, %n, %t, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, most = 10 : i64}
    : (tensor<1x50x4xf32>, tensor<1x3x50xf32>, tensor<i64>, tensor<f32>, tensor<f32>) -> tensor<1x3x11xi64>
  // CHECK: "stepwell.join_rows"(%{{[^ ,)]+}}) : (tensor<1x3x11xi64>) -> tensor<30x3xi64>
  %1 = "stepwell.join_rows"(%0) : (tensor<1x3x11xi64>) -> tensor<30x3xi64>
  return
}
