// RUN: stepwell-opt %s --verify-diagnostics

func.func @activation(%i: tensor<4x8xi64>, %x: tensor<4x8xf32>) {
  // expected-error @+1 {{'stepwell.elu' op operand 'input' must be floating point, but is 4x8xi64}}
  %0 = "stepwell.elu"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.gelu' op operand 'input' must be floating point, but is 4x8xi64}}
  %1 = "stepwell.gelu"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.hard_sigmoid' op operand 'input' must be floating point, but is 4x8xi64}}
  %2 = "stepwell.hard_sigmoid"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.hard_swish' op operand 'input' must be floating point, but is 4x8xi64}}
  %3 = "stepwell.hard_swish"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.leaky_relu' op operand 'input' must be floating point, but is 4x8xi64}}
  %4 = "stepwell.leaky_relu"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.sigmoid' op operand 'input' must be floating point, but is 4x8xi64}}
  %5 = "stepwell.sigmoid"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.silu' op operand 'input' must be floating point, but is 4x8xi64}}
  %6 = "stepwell.silu"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.softplus' op operand 'input' must be floating point, but is 4x8xi64}}
  %7 = "stepwell.softplus"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.gelu' op attribute 'approximate' must be one of none, tanh, but is fast}}
  %8 = "stepwell.gelu"(%x) {approximate = "fast"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.clip' op attribute 'minimum' must be an f64 number, but is 0 : i64}}
  %9 = "stepwell.clip"(%x) {minimum = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.relu' op inferred type 4x8xf32 differs from the declared 4x4xf32}}
  %10 = "stepwell.relu"(%x) : (tensor<4x8xf32>) -> tensor<4x4xf32>
  // expected-error @+1 {{'stepwell.elu' op attribute 'alpha' must be an f64 number, but is 1.000000e+00 : f32}}
  %11 = "stepwell.elu"(%x) {alpha = 1.0 : f32} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
