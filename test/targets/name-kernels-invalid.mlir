// RUN: not stepwell-opt %s --stepwell-name-kernels 2>&1 | FileCheck %s
// RUN: not stepwell-opt %s --stepwell-name-kernels=target=nowhere 2>&1 | FileCheck %s --check-prefix=TARGET

// A wrong name is the user's mistake, not one of the pass.
// TARGET: error: pass 'stepwell-name-kernels' failed: unknown target 'nowhere'; known are cpu,
// TARGET-NOT: bug

// CHECK: name-kernels-invalid.mlir:[[# @LINE + 2]]:{{.*}} 'func.call' op calls @helper, which is not a kernel
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @helper(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @helper(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
