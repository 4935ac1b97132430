// RUN: stepwell-opt %s --split-input-file --verify-diagnostics

func.func @arithmetic(%i: tensor<4x8xi64>, %x: tensor<4x8xf32>, %n: tensor<2xi64>) {
  // expected-error @+1 {{'stepwell.ceil' op operand 'input' must be floating point, but is 4x8xi64}}
  %0 = "stepwell.ceil"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.cos' op operand 'input' must be floating point, but is 4x8xi64}}
  %1 = "stepwell.cos"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.erf' op operand 'input' must be floating point, but is 4x8xi64}}
  %2 = "stepwell.erf"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.exp' op operand 'input' must be floating point, but is 4x8xi64}}
  %3 = "stepwell.exp"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.floor' op operand 'input' must be floating point, but is 4x8xi64}}
  %4 = "stepwell.floor"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.log' op operand 'input' must be floating point, but is 4x8xi64}}
  %5 = "stepwell.log"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.reciprocal' op operand 'input' must be floating point, but is 4x8xi64}}
  %6 = "stepwell.reciprocal"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.round' op operand 'input' must be floating point, but is 4x8xi64}}
  %7 = "stepwell.round"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.rsqrt' op operand 'input' must be floating point, but is 4x8xi64}}
  %8 = "stepwell.rsqrt"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.sin' op operand 'input' must be floating point, but is 4x8xi64}}
  %9 = "stepwell.sin"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.sqrt' op operand 'input' must be floating point, but is 4x8xi64}}
  %10 = "stepwell.sqrt"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.tanh' op operand 'input' must be floating point, but is 4x8xi64}}
  %11 = "stepwell.tanh"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.abs' op inferred type 4x8xf32 differs from the declared 8x4xf32}}
  %12 = "stepwell.abs"(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  // expected-error @+1 {{'stepwell.neg' op inferred type 4x8xf32 differs from the declared 8x4xf32}}
  %13 = "stepwell.neg"(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  // expected-error @+1 {{'stepwell.sign' op inferred type 4x8xf32 differs from the declared 8x4xf32}}
  %14 = "stepwell.sign"(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  // expected-error @+1 {{'stepwell.add' op operands must have one element type, but have f32, i64}}
  %15 = "stepwell.add"(%x, %n) : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.div' op operands must have one element type, but have f32, i64}}
  %16 = "stepwell.div"(%x, %i) : (tensor<4x8xf32>, tensor<4x8xi64>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.maximum' op operands must have one element type, but have f32, i64}}
  %17 = "stepwell.maximum"(%x, %i) : (tensor<4x8xf32>, tensor<4x8xi64>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.minimum' op operands must have one element type, but have f32, i64}}
  %18 = "stepwell.minimum"(%x, %i) : (tensor<4x8xf32>, tensor<4x8xi64>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.mod' op operands must have one element type, but have f32, i64}}
  %19 = "stepwell.mod"(%x, %i) : (tensor<4x8xf32>, tensor<4x8xi64>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.mul' op operands must have one element type, but have f32, i64}}
  %20 = "stepwell.mul"(%x, %i) : (tensor<4x8xf32>, tensor<4x8xi64>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.pow' op operands must have one element type, but have f32, i64}}
  %21 = "stepwell.pow"(%x, %i) : (tensor<4x8xf32>, tensor<4x8xi64>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.sub' op operands must have one element type, but have f32, i64}}
  %22 = "stepwell.sub"(%x, %i) : (tensor<4x8xf32>, tensor<4x8xi64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @arithmetic(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{op expects exactly 2 operands, but got 1}}
  %0 = "stepwell.add"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
