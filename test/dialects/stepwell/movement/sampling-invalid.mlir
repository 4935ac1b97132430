// RUN: stepwell-opt %s --verify-diagnostics

func.func @sampling(%x: tensor<1x8x20x20xf32>, %p: tensor<1x2x5x7xf32>, %q: tensor<1x3x5xf32>, %i: tensor<1x8x9x9xi32>) {
  // expected-error @+1 {{'stepwell.sample' op operand 'positions' must have the batch and 2 coordinates, but is 1x3x5xf32}}
  %0 = "stepwell.sample"(%x, %q) : (tensor<1x8x20x20xf32>, tensor<1x3x5xf32>) -> tensor<1x8x5xf32>
  // expected-error @+1 {{'stepwell.sample' op mode linear takes floating point, but operand 'input' is 1x8x9x9xi32}}
  %1 = "stepwell.sample"(%i, %p) : (tensor<1x8x9x9xi32>, tensor<1x2x5x7xf32>) -> tensor<1x8x5x7xi32>
  return
}
