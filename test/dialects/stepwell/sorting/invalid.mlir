// RUN: stepwell-opt %s --verify-diagnostics

func.func @sorting(%x: tensor<4x3xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{'stepwell.top_k' op cannot take 4 of 3 elements}}
  %0 = "stepwell.top_k"(%x) {k = 4 : i64} : (tensor<4x3xf32>) -> tensor<4x4xi64>
  // expected-error @+1 {{'stepwell.top_k' op takes tensors of rank 1 and more, but operand 'input' is a scalar}}
  %1 = "stepwell.top_k"(%s) {k = 1 : i64} : (tensor<f32>) -> tensor<1xi64>
  // expected-error @+1 {{'stepwell.top_k' op operand 'count' must have element type i64, but is f32}}
  %2 = "stepwell.top_k"(%x, %s) {k = 1 : i64} : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x1xi64>
  return
}
