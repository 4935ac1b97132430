// RUN: stepwell-opt %s --split-input-file --verify-diagnostics

func.func @trigonometry(%i: tensor<4x8xi64>) {
  // expected-error @+1 {{'stepwell.acos' op operand 'input' must be floating point, but is 4x8xi64}}
  %0 = "stepwell.acos"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.acosh' op operand 'input' must be floating point, but is 4x8xi64}}
  %1 = "stepwell.acosh"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.asin' op operand 'input' must be floating point, but is 4x8xi64}}
  %2 = "stepwell.asin"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.asinh' op operand 'input' must be floating point, but is 4x8xi64}}
  %3 = "stepwell.asinh"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.atan' op operand 'input' must be floating point, but is 4x8xi64}}
  %4 = "stepwell.atan"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.atanh' op operand 'input' must be floating point, but is 4x8xi64}}
  %5 = "stepwell.atanh"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.cosh' op operand 'input' must be floating point, but is 4x8xi64}}
  %6 = "stepwell.cosh"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.sinh' op operand 'input' must be floating point, but is 4x8xi64}}
  %7 = "stepwell.sinh"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.tan' op operand 'input' must be floating point, but is 4x8xi64}}
  %8 = "stepwell.tan"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  return
}
