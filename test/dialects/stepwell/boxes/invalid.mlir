// RUN: stepwell-opt %s --verify-diagnostics

func.func @boxes(%b: tensor<1x50x4xf32>, %s: tensor<1x3x49xf32>, %t: tensor<1x3x50xf32>, %e: tensor<2x0xi64>) {
  // expected-error @+1 {{'stepwell.suppress' op cannot assign scores 1x3x49xf32 to boxes 1x50x4xf32}}
  %0 = "stepwell.suppress"(%b, %s) {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>, most = 10 : i64} : (tensor<1x50x4xf32>, tensor<1x3x49xf32>) -> tensor<1x3x11xi64>
  // expected-error @+1 {{'stepwell.suppress' op attribute 'most' must be from 0 to 50, but is 51}}
  %1 = "stepwell.suppress"(%b, %t) {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>, most = 51 : i64} : (tensor<1x50x4xf32>, tensor<1x3x50xf32>) -> tensor<1x3x52xi64>
  // expected-error @+1 {{'stepwell.join_rows' op operand 'input' must have rows of at least one element, but is 2x0xi64}}
  %2 = "stepwell.join_rows"(%e) : (tensor<2x0xi64>) -> tensor<0x2xi64>
  return
}
