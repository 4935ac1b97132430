// RUN: stepwell-opt %s --verify-diagnostics

func.func @rows(%x: tensor<9x4xf32>, %i: tensor<i64>, %list: tensor<1xi64>, %f: tensor<f32>, %none: tensor<0x4xf32>) {
  // expected-error @+1 {{'stepwell.row' op operand 'index' must have rank 0, but is 1xi64}}
  %0 = "stepwell.row"(%x, %list) : (tensor<9x4xf32>, tensor<1xi64>) -> tensor<4xf32>
  // expected-error @+1 {{'stepwell.row' op operand 'index' must be an integer, but is f32}}
  %1 = "stepwell.row"(%x, %f) : (tensor<9x4xf32>, tensor<f32>) -> tensor<4xf32>
  // expected-error @+1 {{'stepwell.row' op operand 'input' must have rows, but is 0x4xf32}}
  %2 = "stepwell.row"(%none, %i) : (tensor<0x4xf32>, tensor<i64>) -> tensor<4xf32>
  // expected-error @+1 {{'stepwell.with_row' op operand 'row' must have the shape of a row of 9x4xf32, but is 9x4xf32}}
  %3 = "stepwell.with_row"(%x, %x, %i) : (tensor<9x4xf32>, tensor<9x4xf32>, tensor<i64>) -> tensor<9x4xf32>
  return
}
