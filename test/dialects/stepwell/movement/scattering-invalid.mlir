// RUN: stepwell-opt %s --verify-diagnostics

func.func @scattering(%x: tensor<8x4xf32>, %i: tensor<3xi64>, %u: tensor<3x4xf32>, %f: tensor<3xf32>, %j: tensor<7x4xi64>) {
  // expected-error @+1 {{'stepwell.scatter' op operand 'indices' must be integers, but is 3xf32}}
  %0 = "stepwell.scatter"(%x, %f, %u) {axis = 0 : i64}
    : (tensor<8x4xf32>, tensor<3xf32>, tensor<3x4xf32>) -> tensor<8x4xf32>
  // expected-error @+1 {{'stepwell.scatter' op operand 'indices' must have rank 2, for axis 1, but is 3xi64}}
  %1 = "stepwell.scatter"(%x, %i, %u) {axis = 1 : i64}
    : (tensor<8x4xf32>, tensor<3xi64>, tensor<3x4xf32>) -> tensor<8x4xf32>
  // expected-error @+1 {{'stepwell.scatter' op operand 'updates' must be 3x4xf32, but is 8x4xf32}}
  %2 = "stepwell.scatter"(%x, %i, %x) {axis = 0 : i64}
    : (tensor<8x4xf32>, tensor<3xi64>, tensor<8x4xf32>) -> tensor<8x4xf32>
  // expected-error @+1 {{'stepwell.scatter' op operand 'indices' must have the batches of the input, 8x4xf32, but is 7x4xi64}}
  %3 = "stepwell.scatter"(%x, %j, %x) {axis = 1 : i64}
    : (tensor<8x4xf32>, tensor<7x4xi64>, tensor<8x4xf32>) -> tensor<8x4xf32>
  // expected-error @+1 {{'stepwell.scatter' op operand 'count' must have rank 0, but is 3xi64}}
  %4 = "stepwell.scatter"(%x, %i, %u, %i) {axis = 0 : i64}
    : (tensor<8x4xf32>, tensor<3xi64>, tensor<3x4xf32>, tensor<3xi64>) -> tensor<8x4xf32>
  return
}
