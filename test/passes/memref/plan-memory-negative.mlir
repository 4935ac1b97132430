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

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  // expected-error @+1 {{'tensor.insert_slice' op of a tensor that was not computed in place}}
  %0 = tensor.insert_slice %x into %e[0] [4] [1] : tensor<4xf32> into tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// A tensor is overwritten before its last read.
func.func @main(%x: tensor<4xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
  %e = tensor.empty() : tensor<8xf32>
  %a = tensor.extract_slice %e[0] [4] [1] : tensor<8xf32> to tensor<4xf32>
  %0 = call @k(%x, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = tensor.insert_slice %0 into %e[0] [4] [1] : tensor<4xf32> into tensor<8xf32>
  %b = tensor.extract_slice %1[2] [4] [1] : tensor<8xf32> to tensor<4xf32>
  %2 = call @k(%x, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = tensor.insert_slice %2 into %1[2] [4] [1] : tensor<4xf32> into tensor<8xf32>
  %o = tensor.empty() : tensor<4xf32>
  // expected-error @+1 {{'func.call' op reads a tensor that has been overwritten}}
  %4 = call @k(%0, %o) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %3, %4 : tensor<8xf32>, tensor<4xf32>
}
func.func private @k(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32>

// -----

func.func @main(%x: tensor<4x8xf32>) -> tensor<16xf32> {
  %0 = tensor.extract_slice %x[0, 4] [4, 4] [1, 1] : tensor<4x8xf32> to tensor<4x4xf32>
  // expected-error @+1 {{'stepwell.reshape' op of a view whose elements are not contiguous}}
  %1 = "stepwell.reshape"(%0) {shape = array<i64: 16>} : (tensor<4x4xf32>) -> tensor<16xf32>
  return %1 : tensor<16xf32>
}
