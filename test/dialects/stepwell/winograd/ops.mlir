// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @ops
func.func @ops(%x: tensor<1x8x8x4xf32>, %w: tensor<2048xf32>) {
  // CHECK: "stepwell.winograd_conv"(%{{[^ ,)]+}}, %{{[^ ,)]+}})
  // CHECK-SAME: {columns = 32 : i64, pads = array<i64: 1, 1, 1, 1>, panel = 32 : i64, tile = 2 : i64}
  // CHECK-SAME: : (tensor<1x8x8x4xf32>, tensor<2048xf32>) -> tensor<1x8x8x32xf32>
  %0 = "stepwell.winograd_conv"(%x, %w) {columns = 32 : i64, panel = 32 : i64, tile = 2 : i64, pads = array<i64: 1, 1, 1, 1>}
    : (tensor<1x8x8x4xf32>, tensor<2048xf32>) -> tensor<1x8x8x32xf32>
  return
}
