// RUN: stepwell-opt %s --verify-diagnostics

func.func @dynamic(%x: tensor<4x8xf32>, %i: tensor<4x8xi64>, %n: tensor<2xi64>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'stepwell.dynamic_reshape' op operand 'shape' must have rank 1, but is 4x8xi64}}
  %0 = "stepwell.dynamic_reshape"(%x, %i) : (tensor<4x8xf32>, tensor<4x8xi64>) -> tensor<?x?xf32>
  // expected-error @+1 {{'stepwell.dynamic_slice' op operand 'ends' must be 1-D integers, but is 4x8xf32}}
  %1 = "stepwell.dynamic_slice"(%x, %n, %x) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}
    : (tensor<4x8xf32>, tensor<2xi64>, tensor<4x8xf32>) -> tensor<?x?xf32>
  // expected-error @+1 {{'stepwell.dynamic_pad' op operand 'pads' must have element type i64, but is 8xf32}}
  %2 = "stepwell.dynamic_pad"(%x, %v) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
    : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<?x?xf32>
  // expected-error @+1 {{'stepwell.dynamic_broadcast_to' op inferred type 4x8xf32 differs from the declared ?x?x?xf32}}
  %3 = "stepwell.dynamic_broadcast_to"(%x, %n) : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<?x?x?xf32>
  return
}
