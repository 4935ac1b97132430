// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-plan-memory,one-shot-bufferize,stepwell-plan-workspaces)' | FileCheck %s

// A library has kernels but no @main: its kernels get their signatures all the same.

// CHECK: module attributes {stepwell.library}
// CHECK-LABEL: func.func private @k(
// CHECK-SAME: memref<4xf32> {llvm.noalias, llvm.readonly}, %{{.*}}: memref<4xf32> {llvm.noalias})
// CHECK-NOT: @main
module attributes {stepwell.library} {
  func.func private @k(%x: tensor<4xf32>) -> tensor<4xf32>
      attributes {stepwell.kernel = {bytes = 32 : i64, class = "elementwise", flops = 4 : i64}} {
    %0 = "stepwell.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
