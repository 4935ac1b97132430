// RUN: stepwell-opt %s --stepwell-form-kernels | FileCheck %s

// An elementwise op that is decided to be apart has a kernel of its own; others share those of their producers.
module attributes {stepwell.decisions = {"fusion relu 4x2xf32 8b91bfa8 after matmul" = "apart"}} {
  // CHECK-LABEL: func.func @main
  // CHECK: call @kernel_0
  // CHECK: call @kernel_1
  // CHECK: call @kernel_2
  // CHECK-NOT: call
  // CHECK-LABEL: func.func private @kernel_0
  // CHECK: stepwell.matmul
  // CHECK-NOT: stepwell.relu
  // CHECK-LABEL: func.func private @kernel_1
  // CHECK: stepwell.relu
  // CHECK-LABEL: func.func private @kernel_2
  // CHECK: stepwell.matmul
  // CHECK: stepwell.relu
  func.func @main(%a: tensor<4x8xf32>, %b: tensor<8x2xf32>, %c: tensor<2x8xf32>) -> tensor<4x8xf32> {
    %0 = "stepwell.matmul"(%a, %b) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    %1 = "stepwell.relu"(%0) : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %2 = "stepwell.matmul"(%1, %c) : (tensor<4x2xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
    %3 = "stepwell.relu"(%2) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %3 : tensor<4x8xf32>
  }
}
