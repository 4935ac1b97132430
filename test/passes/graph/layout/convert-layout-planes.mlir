// RUN: stepwell-opt %s --stepwell-convert-layout --split-input-file | FileCheck %s

// Between an input and a result, the planes are the right-hand side of a product.
// CHECK-LABEL: func.func @pointwise
// CHECK-SAME: (%[[X:.+]]: tensor<1x64x56x56xf32>)
func.func @pointwise(%x: tensor<1x64x56x56xf32>) -> tensor<1x96x56x56xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 96, 64, 1, 1>, dtype = f32} : () -> tensor<96x64x1x1xf32>
  %b = "stepwell.parameter"() {name = "b", shape = array<i64: 96>, dtype = f32} : () -> tensor<96xf32>
  // CHECK-DAG: %[[PLANES:.+]] = "stepwell.reshape"(%[[X]]) {shape = array<i64: 64, 3136>}
  // CHECK-DAG: %[[WEIGHT:.+]] = "stepwell.reshape"(%{{.+}}) {shape = array<i64: 96, 64>}
  // CHECK: %[[PRODUCT:.+]] = "stepwell.matmul"(%[[WEIGHT]], %[[PLANES]])
  // CHECK: %[[BIAS:.+]] = "stepwell.reshape"(%{{.+}}) {shape = array<i64: 96, 1>}
  // CHECK: %[[SUM:.+]] = "stepwell.add"(%[[PRODUCT]], %[[BIAS]])
  // CHECK: "stepwell.reshape"(%[[SUM]]) {shape = array<i64: 1, 96, 56, 56>}
  // CHECK-NOT: stepwell.transpose
  %0 = "stepwell.conv"(%x, %w, %b) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x64x56x56xf32>, tensor<96x64x1x1xf32>, tensor<96xf32>) -> tensor<1x96x56x56xf32>
  return %0 : tensor<1x96x56x56xf32>
}

// -----

// Every second pixel is picked first; groups are batches of products.
// CHECK-LABEL: func.func @strided
// CHECK-SAME: (%[[X:.+]]: tensor<2x64x56x56xf32>)
func.func @strided(%x: tensor<2x64x56x56xf32>) -> tensor<2x96x28x28xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 96, 32, 1, 1>, dtype = f32} : () -> tensor<96x32x1x1xf32>
  // CHECK: %[[PICKED:.+]] = "stepwell.slice"(%[[X]])
  // CHECK-SAME: steps = array<i64: 1, 1, 2, 2>
  // CHECK: "stepwell.reshape"(%[[PICKED]]) {shape = array<i64: 2, 2, 32, 784>}
  // CHECK: "stepwell.reshape"(%{{.+}}) {shape = array<i64: 2, 48, 32>}
  // CHECK: stepwell.matmul
  %0 = "stepwell.conv"(%x, %w) {group = 2 : i64, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<2x64x56x56xf32>, tensor<96x32x1x1xf32>) -> tensor<2x96x28x28xf32>
  return %0 : tensor<2x96x28x28xf32>
}

// -----

// A connected component is converted completely: elementwise ops between have no layout.
// CHECK-LABEL: func.func @depthwise
func.func @depthwise(%x: tensor<1x64x56x56xf32>) -> tensor<1x64x28x28xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 64, 1, 3, 3>, dtype = f32} : () -> tensor<64x1x3x3xf32>
  // CHECK-NOT: stepwell.transpose
  // CHECK: "stepwell.planar_conv"
  // CHECK-SAME: pads = array<i64: 1, 1, 1, 1>
  // CHECK: stepwell.relu
  // CHECK: "stepwell.max_pool"({{.*}} : (tensor<1x64x56x56xf32>) -> tensor<1x64x28x28xf32>
  // CHECK-NOT: stepwell.transpose
  %0 = "stepwell.conv"(%x, %w) {group = 64 : i64, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x64x56x56xf32>, tensor<64x1x3x3xf32>) -> tensor<1x64x56x56xf32>
  %1 = "stepwell.relu"(%0) : (tensor<1x64x56x56xf32>) -> tensor<1x64x56x56xf32>
  %2 = "stepwell.max_pool"(%1) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x64x56x56xf32>) -> tensor<1x64x28x28xf32>
  return %2 : tensor<1x64x28x28xf32>
}

// -----

// A 3x3 convolution over all channels prefers channels-last, and so do its neighbours.
// CHECK-LABEL: func.func @negative_dense
func.func @negative_dense(%x: tensor<1x64x56x56xf32>) -> tensor<1x64x28x28xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 64, 64, 3, 3>, dtype = f32} : () -> tensor<64x64x3x3xf32>
  // CHECK: "stepwell.conv"
  // CHECK-SAME: layout = "channels_last"
  // CHECK: "stepwell.max_pool"
  // CHECK-SAME: layout = "channels_last"
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x64x56x56xf32>, tensor<64x64x3x3xf32>) -> tensor<1x64x56x56xf32>
  %1 = "stepwell.max_pool"(%0) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x64x56x56xf32>) -> tensor<1x64x28x28xf32>
  return %1 : tensor<1x64x28x28xf32>
}

// -----

// A value that a branch reads is outside the ops whose layout is chosen together.
// CHECK-LABEL: func.func @negative_branch
func.func @negative_branch(%x: tensor<1x64x56x56xf32>, %c: i1) -> tensor<1x64x28x28xf32> {
  // CHECK: "stepwell.max_pool"
  // CHECK-SAME: layout = "channels_last"
  %0 = "stepwell.max_pool"(%x) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x64x56x56xf32>) -> tensor<1x64x28x28xf32>
  %1 = scf.if %c -> tensor<1x64x28x28xf32> {
    %2 = "stepwell.relu"(%0) : (tensor<1x64x28x28xf32>) -> tensor<1x64x28x28xf32>
    scf.yield %2 : tensor<1x64x28x28xf32>
  } else {
    scf.yield %0 : tensor<1x64x28x28xf32>
  }
  return %1 : tensor<1x64x28x28xf32>
}

// An image of one channel has the same memory layout either way, so its op is independent of its neighbours.
// CHECK-LABEL: func.func @one_channel
// CHECK: "stepwell.conv"{{.*}}layout = "channels_last"
// CHECK: "stepwell.planar_conv"(%{{.+}}, %{{.+}}) {{.*}} -> tensor<1x1x40x40xf32>
func.func @one_channel(%x: tensor<1x16x40x40xf32>, %u: tensor<1x16x3x3xf32>, %v: tensor<1x1x5x5xf32>) -> tensor<1x1x40x40xf32> {
  %0 = "stepwell.conv"(%x, %u) {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x16x40x40xf32>, tensor<1x16x3x3xf32>) -> tensor<1x1x40x40xf32>
  %1 = "stepwell.conv"(%0, %v) {strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 1, 1>}
    : (tensor<1x1x40x40xf32>, tensor<1x1x5x5xf32>) -> tensor<1x1x40x40xf32>
  return %1 : tensor<1x1x40x40xf32>
}

// -----

// Windows of one row that lie completely in the padding read nothing.
// CHECK-LABEL: func.func @negative_windows_without_data
// CHECK-NOT: stepwell.planar_conv
func.func @negative_windows_without_data(%x: tensor<1x1x5x70xf32>, %w: tensor<1x1x1x2xf32>) -> tensor<1x1x6x71xf32> {
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 0, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x1x5x70xf32>, tensor<1x1x1x2xf32>) -> tensor<1x1x6x71xf32>
  return %0 : tensor<1x1x6x71xf32>
}
