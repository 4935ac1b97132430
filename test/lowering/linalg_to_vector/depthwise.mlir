// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v3})' --split-input-file | FileCheck %s

// A tile has the channels of one register, and as many places as fit the registers beside the weights of three taps and
// two pixels. The loop over the registers of a panel is the innermost one.
// CHECK-LABEL: func.func private @one_register
// CHECK-SAME: lanes = array<i64: 8>
// CHECK-SAME: tiles = [array<i64: 1, 11>]
// CHECK: scf.for %{{.+}} to %c16{{.*}} step %c8{{.*}} iter_args
// CHECK: linalg.generic {{.*}} outs(%{{.+}} : tensor<1x11x1x8xf32>)
func.func private @one_register(%x: tensor<1x24x24x16xf32>, %w: tensor<3x3x16xf32>) -> tensor<1x22x22x16xf32>
    attributes {stepwell.kernel = {class = "depthwise"}} {
  %0 = "stepwell.packed_depthwise_conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x24x24x16xf32>, tensor<3x3x16xf32>) -> tensor<1x22x22x16xf32>
  return %0 : tensor<1x22x22x16xf32>
}

// -----

// With strides, neighbours share few pixels: a larger tile would only read more lines at a time.
// CHECK-LABEL: func.func private @strided
// CHECK-SAME: lanes = array<i64: 8>
// CHECK-SAME: tiles = [array<i64: 1, 6>]
func.func private @strided(%x: tensor<1x25x25x16xf32>, %w: tensor<3x3x16xf32>) -> tensor<1x12x12x16xf32>
    attributes {stepwell.kernel = {class = "depthwise"}} {
  %0 = "stepwell.packed_depthwise_conv"(%x, %w) {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>}
    : (tensor<1x25x25x16xf32>, tensor<3x3x16xf32>) -> tensor<1x12x12x16xf32>
  return %0 : tensor<1x12x12x16xf32>
}

// -----

// Panels of 12 channels are not whole registers of 8: a tile has all of them.
// CHECK-LABEL: func.func private @negative_uneven
// CHECK-SAME: lanes = array<i64: 12>
// CHECK-NOT: step %c8
// CHECK: linalg.generic {{.*}} outs(%{{.+}} : tensor<{{.*}}x1x12xf32>)
func.func private @negative_uneven(%x: tensor<1x24x24x12xf32>, %w: tensor<3x3x12xf32>) -> tensor<1x22x22x12xf32>
    attributes {stepwell.kernel = {class = "depthwise"}} {
  %0 = "stepwell.packed_depthwise_conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x24x24x12xf32>, tensor<3x3x12xf32>) -> tensor<1x22x22x12xf32>
  return %0 : tensor<1x22x22x12xf32>
}
