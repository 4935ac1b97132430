// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @static
func.func @static(
    %a0: tensor<4x1xf32>, %a1: tensor<2x3xf32>, %a2: tensor<2x5xf32>, %a3: tensor<4x8xf32>,
    %a4: tensor<30522x384xf32>, %a5: tensor<1x128xi64>, %a6: tensor<4x6xf32>, %a7: tensor<4x1x8xf32>,
    %a8: tensor<2x4x8xf32>) {
  // CHECK: "stepwell.broadcast_to"(%{{[^ ,)]+}})
  // CHECK-SAME: {shape = array<i64: 2, 4, 8>}
  // CHECK-SAME: : (tensor<4x1xf32>) -> tensor<2x4x8xf32>
  %0 = "stepwell.broadcast_to"(%a0) {shape = array<i64: 2, 4, 8>} : (tensor<4x1xf32>) -> tensor<2x4x8xf32>
  // CHECK: "stepwell.concat"(%{{[^ ,)]+}}, %{{[^ ,)]+}})
  // CHECK-SAME: {axis = 1 : i64}
  // CHECK-SAME: : (tensor<2x3xf32>, tensor<2x5xf32>) -> tensor<2x8xf32>
  %1 = "stepwell.concat"(%a1, %a2) {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x5xf32>) -> tensor<2x8xf32>
  // CHECK: "stepwell.expand_dims"(%{{[^ ,)]+}}) {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4x1x8xf32>
  %2 = "stepwell.expand_dims"(%a3) {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4x1x8xf32>
  // CHECK: "stepwell.gather"(%{{[^ ,)]+}}, %{{[^ ,)]+}})
  // CHECK-SAME: {axis = 0 : i64}
  // CHECK-SAME: : (tensor<30522x384xf32>, tensor<1x128xi64>) -> tensor<1x128x384xf32>
  %3 = "stepwell.gather"(%a4, %a5) {axis = 0 : i64}
    : (tensor<30522x384xf32>, tensor<1x128xi64>) -> tensor<1x128x384xf32>
  // CHECK: "stepwell.pad"(%{{[^ ,)]+}})
  // CHECK-SAME: {high = array<i64: 0, 2>, low = array<i64: 0, 1>}
  // CHECK-SAME: : (tensor<4x8xf32>) -> tensor<4x11xf32>
  %4 = "stepwell.pad"(%a3) {low = array<i64: 0, 1>, high = array<i64: 0, 2>}
    : (tensor<4x8xf32>) -> tensor<4x11xf32>
  // CHECK: "stepwell.reshape"(%{{[^ ,)]+}}) {shape = array<i64: 2, 12>} : (tensor<4x6xf32>) -> tensor<2x12xf32>
  %5 = "stepwell.reshape"(%a6) {shape = array<i64: 2, 12>} : (tensor<4x6xf32>) -> tensor<2x12xf32>
  // CHECK: "stepwell.reverse"(%{{[^ ,)]+}}) {axes = array<i64: 0>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = "stepwell.reverse"(%a3) {axes = array<i64: 0>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.slice"(%{{[^ ,)]+}})
  // CHECK-SAME: {starts = array<i64: 0, 2>, steps = array<i64: 1, 2>, stops = array<i64: 4, 8>}
  // CHECK-SAME: : (tensor<4x8xf32>) -> tensor<4x3xf32>
  %7 = "stepwell.slice"(%a3) {starts = array<i64: 0, 2>, stops = array<i64: 4, 8>, steps = array<i64: 1, 2>}
    : (tensor<4x8xf32>) -> tensor<4x3xf32>
  // CHECK: "stepwell.squeeze"(%{{[^ ,)]+}}) {axes = array<i64: 1>} : (tensor<4x1x8xf32>) -> tensor<4x8xf32>
  %8 = "stepwell.squeeze"(%a7) {axes = array<i64: 1>} : (tensor<4x1x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.tile"(%{{[^ ,)]+}}) {repeats = array<i64: 2, 1>} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %9 = "stepwell.tile"(%a3) {repeats = array<i64: 2, 1>} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  // CHECK: "stepwell.transpose"(%{{[^ ,)]+}})
  // CHECK-SAME: {permutation = array<i64: 0, 2, 1>}
  // CHECK-SAME: : (tensor<2x4x8xf32>) -> tensor<2x8x4xf32>
  %10 = "stepwell.transpose"(%a8) {permutation = array<i64: 0, 2, 1>} : (tensor<2x4x8xf32>) -> tensor<2x8x4xf32>
  return
}
