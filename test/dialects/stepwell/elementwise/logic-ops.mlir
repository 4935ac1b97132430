// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @logic
func.func @logic(
    %a0: tensor<4x8xi1>, %a1: tensor<8xi1>, %a2: tensor<4xf32>, %a3: tensor<4x8xf32>, %a4: tensor<8xf32>,
    %a5: tensor<4x1xi1>, %a6: tensor<f32>) {
  // CHECK: "stepwell.and"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) : (tensor<4x8xi1>, tensor<8xi1>) -> tensor<4x8xi1>
  %0 = "stepwell.and"(%a0, %a1) : (tensor<4x8xi1>, tensor<8xi1>) -> tensor<4x8xi1>
  // CHECK: "stepwell.cast"(%{{[^ ,)]+}}) {dtype = i64} : (tensor<4xf32>) -> tensor<4xi64>
  %1 = "stepwell.cast"(%a2) {dtype = i64} : (tensor<4xf32>) -> tensor<4xi64>
  // CHECK: "stepwell.equal"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
  %2 = "stepwell.equal"(%a3, %a4) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
  // CHECK: "stepwell.greater_equal"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
  %3 = "stepwell.greater_equal"(%a3, %a4) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
  // CHECK: "stepwell.greater"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
  %4 = "stepwell.greater"(%a3, %a4) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
  // CHECK: "stepwell.less_equal"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
  %5 = "stepwell.less_equal"(%a3, %a4) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
  // CHECK: "stepwell.less"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
  %6 = "stepwell.less"(%a3, %a4) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
  // CHECK: "stepwell.not"(%{{[^ ,)]+}}) : (tensor<4x8xi1>) -> tensor<4x8xi1>
  %7 = "stepwell.not"(%a0) : (tensor<4x8xi1>) -> tensor<4x8xi1>
  // CHECK: "stepwell.or"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) : (tensor<4x8xi1>, tensor<8xi1>) -> tensor<4x8xi1>
  %8 = "stepwell.or"(%a0, %a1) : (tensor<4x8xi1>, tensor<8xi1>) -> tensor<4x8xi1>
  // CHECK: "stepwell.select"(%{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}})
  // CHECK-SAME: : (tensor<4x1xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %9 = "stepwell.select"(%a5, %a3, %a6) : (tensor<4x1xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.xor"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) : (tensor<4x8xi1>, tensor<8xi1>) -> tensor<4x8xi1>
  %10 = "stepwell.xor"(%a0, %a1) : (tensor<4x8xi1>, tensor<8xi1>) -> tensor<4x8xi1>
  return
}
