// RUN: stepwell-opt %s --verify-diagnostics

func.func @regions(%x: tensor<2x8x20x20xf32>, %b: tensor<5x4xf32>, %i: tensor<5xi64>, %e: tensor<2x8x0x20xf32>) {
  // expected-error @+1 {{'stepwell.roi_align' op operand 'images' must have rank 1, but is 5x4xf32}}
  %0 = "stepwell.roi_align"(%x, %b, %b) {sizes = array<i64: 7, 7>}
    : (tensor<2x8x20x20xf32>, tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x8x7x7xf32>
  // expected-error @+1 {{'stepwell.roi_max_pool' op operand 'boxes' must have 5 floats each, but is 5x4xf32}}
  %1 = "stepwell.roi_max_pool"(%x, %b) {sizes = array<i64: 7, 7>}
    : (tensor<2x8x20x20xf32>, tensor<5x4xf32>) -> tensor<5x8x7x7xf32>
  // expected-error @+1 {{'stepwell.roi_align' op attribute 'sizes' must be two positive numbers, but is 7, 0}}
  %2 = "stepwell.roi_align"(%x, %b, %i) {sizes = array<i64: 7, 0>}
    : (tensor<2x8x20x20xf32>, tensor<5x4xf32>, tensor<5xi64>) -> tensor<5x8x7x0xf32>
  // expected-error @+1 {{'stepwell.roi_align' op operand 'input' is 2x8x0x20xf32, which has no elements to take}}
  %3 = "stepwell.roi_align"(%e, %b, %i) {sizes = array<i64: 7, 7>}
    : (tensor<2x8x0x20xf32>, tensor<5x4xf32>, tensor<5xi64>) -> tensor<5x8x7x7xf32>
  return
}
