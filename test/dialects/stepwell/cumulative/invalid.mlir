// RUN: stepwell-opt %s --verify-diagnostics

func.func @cumulative(%x: tensor<4x3xf32>, %b: tensor<4xi1>, %i: tensor<4xi4>) {
  // expected-error @+1 {{'stepwell.cumulative' op axis 2 is out of range for rank 2}}
  %0 = "stepwell.cumulative"(%x) {axis = 2 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  // expected-error @+1 {{'stepwell.cumulative' op operand 'input' must be a number}}
  %1 = "stepwell.cumulative"(%b) {axis = 0 : i64} : (tensor<4xi1>) -> tensor<4xi1>
  // expected-error @+1 {{'stepwell.cumulative' op operand 'input' must have elements of whole bytes}}
  %2 = "stepwell.cumulative"(%i) {axis = 0 : i64} : (tensor<4xi4>) -> tensor<4xi4>
  return
}
