// RUN: stepwell-opt %s --verify-diagnostics

func.func @pooling(%img: tensor<1x3x8x8xf32>, %int: tensor<1x3x8x8xi32>) {
  // expected-error @+1 {{'stepwell.max_pool' op attribute 'kernel' must have 2 entries, but has 1}}
  %0 = "stepwell.max_pool"(%img) {kernel = array<i64: 2>, strides = array<i64: 2, 2>, pads =
    array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32>
  // expected-error @+1 {{'stepwell.max_pool' op pads must be less than the window's extent of 2, but are 0, 0, 2, 0}}
  %1 = "stepwell.max_pool"(%img) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads =
    array<i64: 0, 0, 2, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32>
  // expected-error @+1 {{'stepwell.max_pool' op a kernel of extent 9 does not fit into 8 padded elements}}
  %2 = "stepwell.max_pool"(%img) {kernel = array<i64: 9, 2>, strides = array<i64: 2, 2>, pads =
    array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32>
  // expected-error @+1 {{'stepwell.max_pool' op has no attribute 'count_include_pad'}}
  %3 = "stepwell.max_pool"(%img) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads =
    array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, count_include_pad = true}
    : (tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32>
  // expected-error @+1 {{'stepwell.average_pool' op inferred type 1x3x4x4xf32 differs from the declared 1x3x8x8xf32}}
  %4 = "stepwell.average_pool"(%img) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads =
    array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32>
  // expected-error @+1 {{'stepwell.sum_pool' op operand 'input' must be floating point, but is 1x3x8x8xi32}}
  %5 = "stepwell.sum_pool"(%int) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads =
    array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xi32>) -> tensor<1x3x4x4xi32>
  return
}
