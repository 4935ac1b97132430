// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg)' | FileCheck %s

// CHECK-LABEL: func.func private @mean(
// CHECK: linalg.fill
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%{{.*}} : tensor<8x12xf32>) outs(%{{.*}} : tensor<8xf32>)
// CHECK: arith.addf
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel"]
// CHECK: arith.divf
func.func private @mean(%x: tensor<1x8x3x4xf32>) -> tensor<1x8x1x1xf32> attributes {stepwell.kernel = {class = "reduction"}} {
  %0 = "stepwell.reduce_mean"(%x) {axes = array<i64: 2, 3>} : (tensor<1x8x3x4xf32>) -> tensor<1x8x1x1xf32>
  return %0 : tensor<1x8x1x1xf32>
}

// Three passes over a row: the maximum, the exponential with its sum, the scaling.

// CHECK-LABEL: func.func private @softmax(
// CHECK: arith.select
// CHECK: math.exp %{{.*}} fastmath<afn>
// CHECK: arith.addf
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]
// CHECK: arith.divf
// CHECK: arith.mulf
func.func private @softmax(%x: tensor<2x3x40xf32>) -> tensor<2x3x40xf32> attributes {stepwell.kernel = {class = "reduction"}} {
  %0 = "stepwell.softmax"(%x) {axis = -1 : i64} : (tensor<2x3x40xf32>) -> tensor<2x3x40xf32>
  return %0 : tensor<2x3x40xf32>
}

// The preceding elementwise op is computed where its result is read.

// CHECK-LABEL: func.func private @add_layer_norm(
// CHECK-COUNT-2: iterator_types = ["parallel", "reduction"]
// CHECK: math.sqrt
// CHECK-NOT: "reduction"
func.func private @add_layer_norm(%x: tensor<8x24xf32>, %y: tensor<8x24xf32>, %g: tensor<24xf32>, %b: tensor<24xf32>) -> tensor<8x24xf32> attributes {stepwell.kernel = {class = "reduction"}} {
  %0 = "stepwell.add"(%x, %y) : (tensor<8x24xf32>, tensor<8x24xf32>) -> tensor<8x24xf32>
  %1 = "stepwell.layer_norm"(%0, %g, %b) {operandSegmentSizes = array<i32: 1, 1, 1>, axis = 1 : i64} : (tensor<8x24xf32>, tensor<24xf32>, tensor<24xf32>) -> tensor<8x24xf32>
  return %1 : tensor<8x24xf32>
}

// Padding is the neutral element of the reduction; it is implied, not stored.

// CHECK-LABEL: func.func private @max_pool(
// CHECK: tensor.pad %{{.*}} low[1, 1, 0] high[0, 0, 0]
// CHECK: tensor.yield %[[LEAST:.*]] : f32
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]
// CHECK: arith.maximumf
func.func private @max_pool(%x: tensor<1x8x8x24xf32>) -> tensor<1x4x4x24xf32> attributes {stepwell.kernel = {class = "pooling"}} {
  %0 = "stepwell.max_pool"(%x) {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = "channels_last"} : (tensor<1x8x8x24xf32>) -> tensor<1x4x4x24xf32>
  return %0 : tensor<1x4x4x24xf32>
}
