// RUN: stepwell-opt %s -split-input-file -verify-diagnostics --pass-pipeline='builtin.module(stepwell-plan-memory)'

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'stepwell.relu' op works on tensors in @main outside of every kernel}}
  %0 = "stepwell.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{the shape of tensor<?xf32> is not static}}
module {
  func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
    return %x : tensor<?xf32>
  }
}

// -----

// expected-error @+1 {{there is no function @main}}
module {
}
