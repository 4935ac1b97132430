// RUN: not stepwell-opt %s --stepwell-infer-shapes --stepwell-fold-constants --stepwell-canonicalize --stepwell-bind-ranges --split-input-file 2>&1 | FileCheck %s

// CHECK: a dimension of -1 * n + 8 elements has -8 at n=16; leave such sizes out of the ranges
module attributes {stepwell.ranges = {n = [1, 16, 1]}} {
  func.func @main(%x: tensor<?xf32> {stepwell.dims = ["n"]}) -> tensor<?xf32> {
    %count = "stepwell.shape_of"(%x) : (tensor<?xf32>) -> tensor<1xi64>
    %all = "stepwell.constant"() {value = dense<8> : tensor<1xi64>} : () -> tensor<1xi64>
    %rest = "stepwell.sub"(%all, %count) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
    %0 = "stepwell.fill"(%rest) {value = dense<0.0> : tensor<f32>} : (tensor<1xi64>) -> tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}

// -----

// CHECK: 'stepwell.broadcast_to' op: a dimension of -1 * n + 8 elements has at most -1; let the ranges contain smaller sizes
module attributes {stepwell.ranges = {n = [9, 16, 1]}} {
  func.func @main(%x: tensor<?xf32> {stepwell.dims = ["n"]}) -> tensor<?xf32> {
    %count = "stepwell.shape_of"(%x) : (tensor<?xf32>) -> tensor<1xi64>
    %all = "stepwell.constant"() {value = dense<8> : tensor<1xi64>} : () -> tensor<1xi64>
    %rest = "stepwell.sub"(%all, %count) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
    %0 = "stepwell.fill"(%rest) {value = dense<0.0> : tensor<f32>} : (tensor<1xi64>) -> tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}
