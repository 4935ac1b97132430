// RUN: stepwell-opt %s --verify-diagnostics

func.func @selecting(%x: tensor<4x5xf32>, %c: tensor<5xi1>, %m: tensor<1x4xi1>) {
  // expected-error @+1 {{'stepwell.nonzero' op operand 'input' must have element type i1, but is 4x5xf32}}
  %0 = "stepwell.nonzero"(%x) : (tensor<4x5xf32>) -> tensor<2x20xi64>
  // expected-error @+1 {{'stepwell.compress' op operand 'condition' must have at most 4 elements, but is 5xi1}}
  %1 = "stepwell.compress"(%x, %c) {axis = 0 : i64} : (tensor<4x5xf32>, tensor<5xi1>) -> tensor<4x5xf32>
  // expected-error @+1 {{'stepwell.compress' op operand 'condition' must have rank 1, but is 1x4xi1}}
  %2 = "stepwell.compress"(%x, %m) {axis = 0 : i64} : (tensor<4x5xf32>, tensor<1x4xi1>) -> tensor<4x5xf32>
  return
}
