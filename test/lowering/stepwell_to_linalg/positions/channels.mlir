// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg)' | FileCheck %s

// Channels are the last dimension, and 64 of them are pooled together.

// CHECK-LABEL: func.func private @regions(
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<64x400xf32>) outs(%{{.*}} : tensor<400x64xf32>)
// CHECK: scf.forall
// CHECK: vector.transfer_read %{{.*}} : tensor<1x20x20x64xf32>, vector<64xf32>
// CHECK: vector.transfer_write
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<7x7x64xf32>) outs(%{{.*}} : tensor<64x7x7xf32>)
func.func private @regions(%x: tensor<1x64x20x20xf32>, %b: tensor<9x4xf32>, %i: tensor<9xi64>) -> tensor<9x64x7x7xf32> attributes {stepwell.kernel = {class = "movement"}} {
  %0 = "stepwell.roi_align"(%x, %b, %i) {sizes = array<i64: 7, 7>, mode = "mean", scale = 1.0 : f64, samples = 2 : i64, shift = 0.0 : f64} : (tensor<1x64x20x20xf32>, tensor<9x4xf32>, tensor<9xi64>) -> tensor<9x64x7x7xf32>
  return %0 : tensor<9x64x7x7xf32>
}

// Transposing a large image for one small region would take longer than reading single elements.

// CHECK-LABEL: func.func private @negative_one_region(
// CHECK-NOT: vector.transfer_read
// CHECK: tensor.extract
// CHECK: return
func.func private @negative_one_region(%x: tensor<1x64x200x200xf32>, %b: tensor<1x4xf32>, %i: tensor<1xi64>) -> tensor<1x64x2x2xf32> attributes {stepwell.kernel = {class = "movement"}} {
  %0 = "stepwell.roi_align"(%x, %b, %i) {sizes = array<i64: 2, 2>, mode = "mean", scale = 1.0 : f64, samples = 1 : i64, shift = 0.0 : f64} : (tensor<1x64x200x200xf32>, tensor<1x4xf32>, tensor<1xi64>) -> tensor<1x64x2x2xf32>
  return %0 : tensor<1x64x2x2xf32>
}
