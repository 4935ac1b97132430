// RUN: stepwell-opt %s --split-input-file --verify-diagnostics

func.func @bits(%x: tensor<4x8xf32>, %i: tensor<4x8xi32>, %j: tensor<8xi64>) {
  // expected-error @+1 {{'stepwell.bitcast' op cannot bitcast 4x8xf32 to i64: its elements have 32 bits, not 64}}
  %0 = "stepwell.bitcast"(%x) {dtype = i64} : (tensor<4x8xf32>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.shift_left' op operand 'lhs' must be integer, but is 4x8xf32}}
  %1 = "stepwell.shift_left"(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.shift_right' op operands must have one element type, but have i32, i64}}
  %2 = "stepwell.shift_right"(%i, %j) : (tensor<4x8xi32>, tensor<8xi64>) -> tensor<4x8xi32>
  return
}
