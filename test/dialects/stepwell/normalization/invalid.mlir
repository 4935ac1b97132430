// RUN: stepwell-opt %s --split-input-file --verify-diagnostics

func.func @normalization(
    %x: tensor<4x8xf32>, %i: tensor<4x8xi64>, %n: tensor<2xi64>, %img: tensor<1x3x8x8xf32>, %v: tensor<8xf32>,
    %q: tensor<1x4x8x16xf32>) {
  // expected-error @+1 {{'stepwell.softmax' op axis 2 is out of range for rank 2}}
  %0 = "stepwell.softmax"(%x) {axis = 2 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.softmax' op operand 'input' must be floating point, but is 4x8xi64}}
  %1 = "stepwell.softmax"(%i) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // expected-error @+1 {{'stepwell.log_softmax' op axis -3 is out of range for rank 2}}
  %2 = "stepwell.log_softmax"(%x) {axis = -3 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.layer_norm' op operand 'scale' must be floating point, but is 2xi64}}
  %3 = "stepwell.layer_norm"(%x, %n) {operandSegmentSizes = array<i32: 1, 1, 0>}
    : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.rms_norm' op operand 'scale' must broadcast to the normalised dimensions of 4x8xf32, but is 4x8xf32}}
  %5 = "stepwell.rms_norm"(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.batch_norm' op operand 'scale' must have shape 3, but is 8xf32}}
  %6 = "stepwell.batch_norm"(%img, %v, %v, %v, %v)
    : (tensor<1x3x8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x3x8x8xf32>
  // expected-error @+1 {{'stepwell.local_response_norm' op attribute 'size' must be positive, but is 0}}
  %7 = "stepwell.local_response_norm"(%img) {size = 0 : i64} : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32>
  // expected-error @+1 {{'stepwell.attention' op operand 'value' must have rank 4, but is 4x8xf32}}
  %8 = "stepwell.attention"(%q, %q, %x) {scale = 1.0 : f64}
    : (tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<4x8xf32>) -> tensor<1x4x8x16xf32>
  // expected-error @+1 {{'stepwell.attention' op operand 'mask' must broadcast to the scores' shape 1x4x8x8, but is 4x8xf32}}
  %9 = "stepwell.attention"(%q, %q, %q, %x) {scale = 1.0 : f64}
    : (tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<4x8xf32>) ->
    tensor<1x4x8x16xf32>
  return
}

// -----

func.func @normalization(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'operandSegmentSizes' attribute is expected but not provided}}
  %0 = "stepwell.layer_norm"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
