// RUN: not stepwell-opt %s 2>&1 | FileCheck %s

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: negative_custom_form.mlir:[[#@LINE+1]]:8: error: 'stepwell.relu' has no custom form: write "stepwell.relu"(...) : (...) -> (...)
  %0 = stepwell.relu(%x) : tensor<4xf32>
  return %0 : tensor<4xf32>
}
