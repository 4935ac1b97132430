// RUN: stepwell-opt %s --verify-diagnostics

func.func @negative(%x: tensor<1x8x8x4xf32>, %row: tensor<8x4xf32>, %w: tensor<2048xf32>) {
  // expected-error @+1 {{'stepwell.winograd_conv' op attribute 'tile' must be one of 2, 4, but is 3}}
  %0 = "stepwell.winograd_conv"(%x, %w) {columns = 32 : i64, panel = 32 : i64, tile = 3 : i64, pads = array<i64: 1, 1, 1, 1>}
    : (tensor<1x8x8x4xf32>, tensor<2048xf32>) -> tensor<1x8x8x32xf32>
  // expected-error @+1 {{'stepwell.winograd_conv' op attribute 'pads' must be four non-negative numbers, but is 1, 1}}
  %1 = "stepwell.winograd_conv"(%x, %w) {columns = 32 : i64, panel = 32 : i64, tile = 2 : i64, pads = array<i64: 1, 1>}
    : (tensor<1x8x8x4xf32>, tensor<2048xf32>) -> tensor<1x8x8x32xf32>
  // expected-error @+1 {{'stepwell.winograd_conv' op the packed weight must be a flat tensor of 4608 elements, but is 2048xf32}}
  %2 = "stepwell.winograd_conv"(%x, %w) {columns = 32 : i64, panel = 32 : i64, tile = 4 : i64, pads = array<i64: 1, 1, 1, 1>}
    : (tensor<1x8x8x4xf32>, tensor<2048xf32>) -> tensor<1x8x8x32xf32>
  // expected-error @+1 {{'stepwell.winograd_conv' op the input must be [N, H, W, C], but is 8x4xf32}}
  %3 = "stepwell.winograd_conv"(%row, %w) {columns = 32 : i64, panel = 32 : i64, tile = 2 : i64, pads = array<i64: 1, 1, 1, 1>}
    : (tensor<8x4xf32>, tensor<2048xf32>) -> tensor<8x32xf32>
  return
}
