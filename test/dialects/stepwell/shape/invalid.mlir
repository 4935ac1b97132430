// RUN: stepwell-opt %s --verify-diagnostics

func.func @shape(%x: tensor<4x8xf32>, %n: tensor<2xi64>, %k: tensor<i64>, %s: tensor<f32>) {
  // expected-error @+1 {{'stepwell.shape_of' op inferred type 2xi64 differs from the declared 3xi64}}
  %0 = "stepwell.shape_of"(%x) : (tensor<4x8xf32>) -> tensor<3xi64>
  // expected-error @+1 {{'stepwell.size_of' op inferred type i64 differs from the declared 1xi64}}
  %1 = "stepwell.size_of"(%x) : (tensor<4x8xf32>) -> tensor<1xi64>
  // expected-error @+1 {{'stepwell.fill' op attribute 'value' must have one element, but has 2}}
  %2 = "stepwell.fill"(%n) {value = dense<0.0> : tensor<2xf32>} : (tensor<2xi64>) -> tensor<?x?xf32>
  // expected-error @+1 {{'stepwell.fill' op attribute 'value' must be a dense constant, but is 0.000000e+00 : f32}}
  %3 = "stepwell.fill"(%n) {value = 0.0 : f32} : (tensor<2xi64>) -> tensor<?x?xf32>
  // expected-error @+1 {{'stepwell.range' op operands must have one element type, but have i64, f32, i64}}
  %4 = "stepwell.range"(%k, %s, %k) : (tensor<i64>, tensor<f32>, tensor<i64>) -> tensor<?xi64>
  // expected-error @+1 {{'stepwell.range' op operand 'start' must have rank 0, but is 2xi64}}
  %5 = "stepwell.range"(%n, %n, %n) : (tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?xi64>
  // expected-error @+1 {{'stepwell.border' op has a border of 5 elements along axis 0, whose extent is 4}}
  %6 = "stepwell.border"() {shape = array<i64: 4>, low = array<i64: 2>, high = array<i64: 3>, value = dense<0.0> : tensor<f32>} : () -> tensor<4xf32>
  // expected-error @+1 {{'stepwell.border' op a border must not be negative}}
  %7 = "stepwell.border"() {shape = array<i64: 4>, low = array<i64: -1>, high = array<i64: 3>, value = dense<0.0> : tensor<f32>} : () -> tensor<4xf32>
  return
}
