// RUN: stepwell-opt %s --split-input-file --stepwell-form-kernels --stepwell-merge-kernels | FileCheck %s

// Kernels that differ only in their names and in the model's ops share a function; other shapes need another one.
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.+]] = call @[[K:[^(]+]](%{{[^)]+}}) {stepwell.ops = ["first"], stepwell.work
// CHECK:         call @[[OTHER:[^(]+]](%[[A]]) {stepwell.ops = ["mean", "second"], stepwell.work
// CHECK:         call @[[K]](%{{[^)]+}}) {stepwell.ops = ["third"], stepwell.work
// CHECK-COUNT-2: func.func private
// CHECK-NOT:     func.func private
func.func @main(%x: tensor<1x4x4x8xf32>) -> (tensor<1x1x1x8xf32>, tensor<1x4x4x8xf32>) {
  %0 = "stepwell.exp"(%x) : (tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32> loc("first")
  %1 = "stepwell.reduce_mean"(%0) {axes = array<i64: 1, 2>, keepdims = true} : (tensor<1x4x4x8xf32>) -> tensor<1x1x1x8xf32> loc("mean")
  %3 = "stepwell.exp"(%1) : (tensor<1x1x1x8xf32>) -> tensor<1x1x1x8xf32> loc("second")
  %4 = "stepwell.exp"(%0) : (tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32> loc("third")
  return %3, %4 : tensor<1x1x1x8xf32>, tensor<1x4x4x8xf32>
}

// -----

// Kernels that differ in an attribute of an op, here the dimension of the sum, stay apart.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: func.func private
// CHECK-NOT:     func.func private
func.func @main(%x: tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = "stepwell.reduce_sum"(%x) {axes = array<i64: 0>, keepdims = false} : (tensor<4x4xf32>) -> tensor<4xf32>
  %1 = "stepwell.reduce_sum"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<4x4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Other functions stay, as something outside may call them.
// CHECK-LABEL: func.func @main
// CHECK:         call @one(
// CHECK:         call @other(
// CHECK:       func.func @one(
// CHECK:       func.func @other(
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = call @one(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @other(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
func.func @one(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
