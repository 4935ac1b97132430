// RUN: stepwell-opt %s --split-input-file --stepwell-form-kernels="products-alone=true" | FileCheck %s

// A unit that computes nothing but products: the elementwise ops after one have a kernel of their own.
// CHECK-LABEL: func.func @main
// CHECK:         %[[SUM:.+]] = call @[[PRODUCT:[^(]+]](%{{.+}}, %{{.+}}) {stepwell.ops = ["MatMul_0"]
// CHECK-NEXT:    %[[R:.+]] = call @[[REST:[^(]+]](%[[SUM]], %{{.+}}) {stepwell.ops = ["Add_1", "Relu_2"]
// CHECK-NEXT:    return %[[R]]
// CHECK:       func.func private @[[PRODUCT]]
// CHECK-SAME:    class = "contraction"
// CHECK:         stepwell.matmul
// CHECK-NEXT:    return
// CHECK:       func.func private @[[REST]]
// CHECK-SAME:    class = "elementwise"
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>, %b: tensor<2xf32>) -> tensor<4x2xf32> {
  %0 = "stepwell.matmul"(%x, %w) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32> loc("MatMul_0")
  %1 = "stepwell.add"(%0, %b) : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32> loc("Add_1")
  %2 = "stepwell.relu"(%1) : (tensor<4x2xf32>) -> tensor<4x2xf32> loc("Relu_2")
  return %2 : tensor<4x2xf32>
}

// -----

// Other kernels absorb their consumers as before.
// CHECK-LABEL: func.func @main
// CHECK:         call @{{.+}}(%{{.+}}) {stepwell.ops = ["ReduceSum_0", "Relu_1"]
func.func @main(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %0 = "stepwell.reduce_sum"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<4x8xf32>) -> tensor<4xf32> loc("ReduceSum_0")
  %1 = "stepwell.relu"(%0) : (tensor<4xf32>) -> tensor<4xf32> loc("Relu_1")
  return %1 : tensor<4xf32>
}
