// RUN: stepwell-opt %s --verify-diagnostics

func.func @contraction(%x: tensor<4x8xf32>, %v: tensor<8xf32>, %img: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error @+1 {{'stepwell.matmul' op contracts 8 elements of lhs (4x8xf32) with 4 of rhs (4x8xf32)}}
  %0 = "stepwell.matmul"(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.matmul' op operand 'rhs' must have at least rank 2, but is 8xf32}}
  %1 = "stepwell.matmul"(%x, %v) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.conv' op attribute 'strides' must have 2 entries, but has 1}}
  %2 = "stepwell.conv"(%img, %w) {strides = array<i64: 1>, pads = array<i64: 0, 0, 0, 0>, dilations =
    array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  // expected-error @+1 {{'stepwell.conv' op group 3 of weight 4x3x3x3xf32 takes 9 channels, but input has 3}}
  %3 = "stepwell.conv"(%img, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations =
    array<i64: 1, 1>, group = 3 : i64}
    : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  // expected-error @+1 {{'stepwell.conv' op attribute 'layout' must be one of channels_first, channels_last, but is nchw}}
  %4 = "stepwell.conv"(%img, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations =
    array<i64: 1, 1>, layout = "nchw"}
    : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  // expected-error @+1 {{'stepwell.conv' op inferred type 1x4x6x6xf32 differs from the declared 1x4x8x8xf32}}
  %5 = "stepwell.conv"(%img, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations =
    array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32>
  // expected-error @+1 {{'stepwell.conv_transpose' op weight 4x3x3x3xf32 takes 4 channels, but input has 3}}
  %6 = "stepwell.conv_transpose"(%img, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations
    = array<i64: 1, 1>, output_padding = array<i64: 0, 0>}
    : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x10x10xf32>
  return
}
