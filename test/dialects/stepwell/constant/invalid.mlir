// RUN: stepwell-opt %s --verify-diagnostics

func.func @constant() {
  // expected-error @+1 {{'stepwell.constant' op attribute 'value' must be a dense constant, but is 1 : i64}}
  %0 = "stepwell.constant"() {value = 1 : i64} : () -> tensor<i64>
  // expected-error @+1 {{'stepwell.constant' op inferred type 2xi64 differs from the declared 3xi64}}
  %1 = "stepwell.constant"() {value = dense<1> : tensor<2xi64>} : () -> tensor<3xi64>
  // expected-error @+1 {{'stepwell.parameter' op attribute 'name' must not be empty}}
  %2 = "stepwell.parameter"() {name = "", shape = array<i64: 2>, dtype = f32} : () -> tensor<2xf32>
  // expected-error @+1 {{'stepwell.parameter' op inferred type 2xf32 differs from the declared 2xf64}}
  %3 = "stepwell.parameter"() {name = "w", shape = array<i64: 2>, dtype = f32} : () -> tensor<2xf64>
  // expected-error @+1 {{'stepwell.parameter' op attribute 'shape' must not be negative, but is -2}}
  %4 = "stepwell.parameter"() {name = "w", shape = array<i64: -2>, dtype = f32} : () -> tensor<?xf32>
  return
}
