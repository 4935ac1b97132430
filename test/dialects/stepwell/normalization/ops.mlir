// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @normalization
func.func @normalization(
    %a0: tensor<4x8xf32>, %a1: tensor<1x128x384xf32>, %a2: tensor<384xf32>, %a3: tensor<384xf32>,
    %a4: tensor<1x8x4x4xf32>, %a5: tensor<8xf32>, %a6: tensor<8xf32>, %a7: tensor<8xf32>, %a8: tensor<8xf32>,
    %a9: tensor<1x64x56x56xf32>, %a10: tensor<1x12x128x64xf32>, %a11: tensor<1x12x128x64xf32>,
    %a12: tensor<1x12x128x64xf32>) {
  // CHECK: "stepwell.softmax"(%{{[^ ,)]+}}) {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = "stepwell.softmax"(%a0) {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.log_softmax"(%{{[^ ,)]+}}) {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = "stepwell.log_softmax"(%a0) {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.layer_norm"(%{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}})
  // CHECK-SAME: {epsilon = 1.000000e-05 : f64, operandSegmentSizes = array<i32: 1, 1, 1>}
  // CHECK-SAME: : (tensor<1x128x384xf32>, tensor<384xf32>, tensor<384xf32>) -> tensor<1x128x384xf32>
  %2 = "stepwell.layer_norm"(%a1, %a2, %a3) {operandSegmentSizes = array<i32: 1, 1, 1>, epsilon = 1.0e-5 : f64}
    : (tensor<1x128x384xf32>, tensor<384xf32>, tensor<384xf32>) -> tensor<1x128x384xf32>
  // CHECK: "stepwell.rms_norm"(%{{[^ ,)]+}}, %{{[^ ,)]+}})
  // CHECK-SAME: {epsilon = 9.9999999999999995E-7 : f64}
  // CHECK-SAME: : (tensor<1x128x384xf32>, tensor<384xf32>) -> tensor<1x128x384xf32>
  %3 = "stepwell.rms_norm"(%a1, %a2) {epsilon = 1.0e-6 : f64}
    : (tensor<1x128x384xf32>, tensor<384xf32>) -> tensor<1x128x384xf32>
  // CHECK: "stepwell.batch_norm"(%{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}})
  // CHECK-SAME: : (tensor<1x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x4x4xf32>
  %4 = "stepwell.batch_norm"(%a4, %a5, %a6, %a7, %a8)
    : (tensor<1x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x4x4xf32>
  // CHECK: "stepwell.local_response_norm"(%{{[^ ,)]+}})
  // CHECK-SAME: {alpha = 1.000000e-04 : f64, beta = 7.500000e-01 : f64, bias = 1.000000e+00 : f64, size = 5 : i64}
  // CHECK-SAME: : (tensor<1x64x56x56xf32>) -> tensor<1x64x56x56xf32>
  %5 = "stepwell.local_response_norm"(%a9) {size = 5 : i64, alpha = 1.0e-4 : f64, beta = 0.75 : f64, bias = 1.0
    : f64}
    : (tensor<1x64x56x56xf32>) -> tensor<1x64x56x56xf32>
  // CHECK: "stepwell.attention"(%{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}})
  // CHECK-SAME: {scale = 1.250000e-01 : f64}
  // CHECK-SAME: : (tensor<1x12x128x64xf32>, tensor<1x12x128x64xf32>, tensor<1x12x128x64xf32>) -> tensor<1x12x128x64xf32>
  %6 = "stepwell.attention"(%a10, %a11, %a12) {scale = 0.125 : f64}
    : (tensor<1x12x128x64xf32>, tensor<1x12x128x64xf32>, tensor<1x12x128x64xf32>) -> tensor<1x12x128x64xf32>
  return
}
