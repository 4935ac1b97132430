// RUN: stepwell-opt %s --split-input-file --verify-diagnostics

func.func @logic(%x: tensor<4x8xf32>, %i: tensor<4x8xi64>, %b: tensor<4x8xi1>) {
  // expected-error @+1 {{'stepwell.and' op operand 'lhs' must be bool or integer, but is 4x8xf32}}
  %0 = "stepwell.and"(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.or' op operand 'lhs' must be bool or integer, but is 4x8xf32}}
  %1 = "stepwell.or"(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.xor' op operand 'lhs' must be bool or integer, but is 4x8xf32}}
  %2 = "stepwell.xor"(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.not' op operand 'input' must be bool or integer, but is 4x8xf32}}
  %3 = "stepwell.not"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.equal' op inferred type 4x8xi1 differs from the declared 4x8xf32}}
  %4 = "stepwell.equal"(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.greater' op inferred type 4x8xi1 differs from the declared 4x8xf32}}
  %5 = "stepwell.greater"(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.greater_equal' op inferred type 4x8xi1 differs from the declared 4x8xf32}}
  %6 = "stepwell.greater_equal"(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.less' op operands must have one element type, but have f32, i64}}
  %7 = "stepwell.less"(%x, %i) : (tensor<4x8xf32>, tensor<4x8xi64>) -> tensor<4x8xi1>
  // expected-error @+1 {{'stepwell.less_equal' op operands must have one element type, but have f32, i64}}
  %8 = "stepwell.less_equal"(%x, %i) : (tensor<4x8xf32>, tensor<4x8xi64>) -> tensor<4x8xi1>
  // expected-error @+1 {{'stepwell.select' op operand 'condition' must have element type i1, but is 4x8xf32}}
  %9 = "stepwell.select"(%x, %x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.select' op operands must have one element type, but have f32, i64}}
  %10 = "stepwell.select"(%b, %x, %i) : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xi64>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.cast' op element type f8E3M4 is not supported: expected one of f64, f32, f16, bf16, i64, i32, i16, i8, ui64, ui32, ui16, ui8, i1, i4, i2, ui4, ui2, f8E4M3FN, f8E4M3FNUZ, f8E5M2, f8E5M2FNUZ, f8E8M0FNU, f4E2M1FN}}
  %11 = "stepwell.cast"(%x) {dtype = f8E3M4} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.cast' op inferred type 4x8xi64 differs from the declared 4x8xf32}}
  %12 = "stepwell.cast"(%x) {dtype = i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @logic(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{attribute "dtype" is expected but not provided}}
  %0 = "stepwell.cast"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
