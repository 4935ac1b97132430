// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @contraction
func.func @contraction(
    %a0: tensor<12x128x64xf32>, %a1: tensor<12x128x64xf32>, %a2: tensor<1x3x224x224xf32>,
    %a3: tensor<32x3x3x3xf32>, %a4: tensor<32xf32>, %a5: tensor<1x24x40x40xf32>, %a6: tensor<24x8x2x2xf32>) {
  // CHECK: "stepwell.matmul"(%{{[^ ,)]+}}, %{{[^ ,)]+}})
  // CHECK-SAME: {transpose_rhs = true}
  // CHECK-SAME: : (tensor<12x128x64xf32>, tensor<12x128x64xf32>) -> tensor<12x128x128xf32>
  %0 = "stepwell.matmul"(%a0, %a1) {transpose_rhs = true}
    : (tensor<12x128x64xf32>, tensor<12x128x64xf32>) -> tensor<12x128x128xf32>
  // CHECK: "stepwell.conv"(%{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}})
  // CHECK-SAME: {dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>}
  // CHECK-SAME: : (tensor<1x3x224x224xf32>, tensor<32x3x3x3xf32>, tensor<32xf32>) -> tensor<1x32x112x112xf32>
  %1 = "stepwell.conv"(%a2, %a3, %a4) {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations =
    array<i64: 1, 1>}
    : (tensor<1x3x224x224xf32>, tensor<32x3x3x3xf32>, tensor<32xf32>) -> tensor<1x32x112x112xf32>
  // CHECK: "stepwell.conv_transpose"(%{{[^ ,)]+}}, %{{[^ ,)]+}})
  // CHECK-SAME: {dilations = array<i64: 1, 1>, output_padding = array<i64: 0, 0>, pads = array<i64: 0, 0, 0, 0>, strides =
  // CHECK-SAME: array<i64: 2, 2>}
  // CHECK-SAME: : (tensor<1x24x40x40xf32>, tensor<24x8x2x2xf32>) -> tensor<1x8x80x80xf32>
  %2 = "stepwell.conv_transpose"(%a5, %a6) {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations
    = array<i64: 1, 1>, output_padding = array<i64: 0, 0>}
    : (tensor<1x24x40x40xf32>, tensor<24x8x2x2xf32>) -> tensor<1x8x80x80xf32>
  return
}
