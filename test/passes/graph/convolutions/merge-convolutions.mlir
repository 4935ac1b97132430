// RUN: stepwell-opt %s -split-input-file --stepwell-merge-convolutions | FileCheck %s

// The kernel of one tap is padded to nine taps, and both biases are added.
// CHECK-LABEL: func.func @two_branches
func.func @two_branches(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x4x4xf32> {
  // CHECK-DAG: %[[V:.+]] = "stepwell.parameter"() {{.*}}name = "v"
  // CHECK-DAG: %[[W:.+]] = "stepwell.parameter"() {{.*}}name = "w"
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 4, 3, 1, 1>, dtype = f32} : () -> tensor<4x3x1x1xf32>
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 3, 3, 3>, dtype = f32} : () -> tensor<4x3x3x3xf32>
  %b = "stepwell.parameter"() {name = "b", shape = array<i64: 4>, dtype = f32} : () -> tensor<4xf32>
  // CHECK: %[[PADDED:.+]] = "stepwell.pad"(%[[V]]) {{.*}}low = array<i64: 0, 0, 1, 1>
  // CHECK: %[[SUM:.+]] = "stepwell.add"(%[[PADDED]], %[[W]])
  // CHECK: %[[Y:.+]] = "stepwell.conv"(%{{.+}}, %[[SUM]], %{{.+}}) {{.*}}pads = array<i64: 1, 1, 1, 1>
  // CHECK-NEXT: return %[[Y]]
  %0 = "stepwell.conv"(%x, %v, %b) {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>, tensor<4xf32>) -> tensor<1x4x4x4xf32>
  %1 = "stepwell.conv"(%x, %w, %b) {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>,
    dilations = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<1x4x4x4xf32>
  %2 = "stepwell.add"(%0, %1) : (tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
  return %2 : tensor<1x4x4x4xf32>
}

// -----

// CHECK-LABEL: func.func @another_term_between
func.func @another_term_between(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32> {
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 3, 3, 1, 1>, dtype = f32} : () -> tensor<3x3x1x1xf32>
  // CHECK: %[[Y:.+]] = "stepwell.conv"
  // CHECK-NOT: stepwell.conv
  // CHECK: "stepwell.add"(%{{.+}}, %[[Y]])
  %0 = "stepwell.conv"(%x, %v) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>, tensor<3x3x1x1xf32>) -> tensor<1x3x8x8xf32>
  %1 = "stepwell.add"(%0, %x) : (tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32>
  %2 = "stepwell.conv"(%x, %v) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>, tensor<3x3x1x1xf32>) -> tensor<1x3x8x8xf32>
  %3 = "stepwell.add"(%1, %2) : (tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32>
  return %3 : tensor<1x3x8x8xf32>
}

// -----

// The smaller kernel begins before the larger one.
// CHECK-LABEL: func.func @negative_windows_are_shifted
// CHECK: %[[A:.+]] = "stepwell.conv"
// CHECK: %[[B:.+]] = "stepwell.conv"
// CHECK-NEXT: "stepwell.add"(%[[A]], %[[B]])
func.func @negative_windows_are_shifted(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x8x8xf32> {
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 4, 3, 5, 5>, dtype = f32} : () -> tensor<4x3x5x5xf32>
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 3, 3, 3>, dtype = f32} : () -> tensor<4x3x3x3xf32>
  %0 = "stepwell.conv"(%x, %v) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 4, 4>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>, tensor<4x3x5x5xf32>) -> tensor<1x4x8x8xf32>
  %1 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32>
  %2 = "stepwell.add"(%0, %1) : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  return %2 : tensor<1x4x8x8xf32>
}

// -----

// The taps of the dilated kernel are not those of the other one.
// CHECK-LABEL: func.func @negative_dilated_window
// CHECK: %[[A:.+]] = "stepwell.conv"
// CHECK: %[[B:.+]] = "stepwell.conv"
// CHECK-NEXT: "stepwell.add"(%[[A]], %[[B]])
func.func @negative_dilated_window(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x2x2xf32> {
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 4, 3, 3, 3>, dtype = f32} : () -> tensor<4x3x3x3xf32>
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 3, 3, 3>, dtype = f32} : () -> tensor<4x3x3x3xf32>
  %0 = "stepwell.conv"(%x, %v) {strides = array<i64: 4, 4>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x2x2xf32>
  %1 = "stepwell.conv"(%x, %w) {strides = array<i64: 4, 4>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 2, 2>}
    : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x2x2xf32>
  %2 = "stepwell.add"(%0, %1) : (tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>) -> tensor<1x4x2x2xf32>
  return %2 : tensor<1x4x2x2xf32>
}

// -----

// With a stride, results have one shape although the padding of one kernel does not account for its size.
// CHECK-LABEL: func.func @negative_narrower_window
// CHECK: %[[A:.+]] = "stepwell.conv"
// CHECK: %[[B:.+]] = "stepwell.conv"
// CHECK-NEXT: "stepwell.add"(%[[A]], %[[B]])
func.func @negative_narrower_window(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x2x2xf32> {
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 4, 3, 5, 5>, dtype = f32} : () -> tensor<4x3x5x5xf32>
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 3, 3, 3>, dtype = f32} : () -> tensor<4x3x3x3xf32>
  %0 = "stepwell.conv"(%x, %v) {strides = array<i64: 4, 4>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>, tensor<4x3x5x5xf32>) -> tensor<1x4x2x2xf32>
  %1 = "stepwell.conv"(%x, %w) {strides = array<i64: 4, 4>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x2x2xf32>
  %2 = "stepwell.add"(%0, %1) : (tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>) -> tensor<1x4x2x2xf32>
  return %2 : tensor<1x4x2x2xf32>
}

// -----

// One convolution has one input.
// CHECK-LABEL: func.func @negative_other_input
// CHECK: %[[A:.+]] = "stepwell.conv"
// CHECK: %[[B:.+]] = "stepwell.conv"
// CHECK-NEXT: "stepwell.add"(%[[A]], %[[B]])
func.func @negative_other_input(%x: tensor<1x3x8x8xf32>, %y: tensor<1x3x8x8xf32>) -> tensor<1x4x8x8xf32> {
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 4, 3, 1, 1>, dtype = f32} : () -> tensor<4x3x1x1xf32>
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 3, 1, 1>, dtype = f32} : () -> tensor<4x3x1x1xf32>
  %0 = "stepwell.conv"(%x, %v) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x8x8xf32>
  %1 = "stepwell.conv"(%y, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x8x8xf32>
  %2 = "stepwell.add"(%0, %1) : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  return %2 : tensor<1x4x8x8xf32>
}

// -----

// The sum of weights would be computed in every run.
// CHECK-LABEL: func.func @negative_weight_of_every_run
// CHECK: %[[A:.+]] = "stepwell.conv"
// CHECK: %[[B:.+]] = "stepwell.conv"
// CHECK-NEXT: "stepwell.add"(%[[A]], %[[B]])
func.func @negative_weight_of_every_run(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x1x1xf32>) -> tensor<1x4x8x8xf32> {
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 4, 3, 1, 1>, dtype = f32} : () -> tensor<4x3x1x1xf32>
  %0 = "stepwell.conv"(%x, %v) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x8x8xf32>
  %1 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x8x8xf32>
  %2 = "stepwell.add"(%0, %1) : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  return %2 : tensor<1x4x8x8xf32>
}

// -----

// The result of one convolution is needed by itself.
// CHECK-LABEL: func.func @negative_other_reader
// CHECK: %[[A:.+]] = "stepwell.conv"
// CHECK: %[[B:.+]] = "stepwell.conv"
// CHECK-NEXT: "stepwell.add"(%[[A]], %[[B]])
func.func @negative_other_reader(%x: tensor<1x3x8x8xf32>) -> (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) {
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 4, 3, 1, 1>, dtype = f32} : () -> tensor<4x3x1x1xf32>
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 3, 1, 1>, dtype = f32} : () -> tensor<4x3x1x1xf32>
  %0 = "stepwell.conv"(%x, %v) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x8x8xf32>
  %1 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x8x8xf32>
  %2 = "stepwell.add"(%0, %1) : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  return %1, %2 : tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>
}

// -----

// The windows are in other places, although the shapes are equal.
// CHECK-LABEL: func.func @negative_other_strides
// CHECK: %[[A:.+]] = "stepwell.conv"
// CHECK: %[[B:.+]] = "stepwell.conv"
// CHECK-NEXT: "stepwell.add"(%[[A]], %[[B]])
func.func @negative_other_strides(%x: tensor<1x3x2x2xf32>) -> tensor<1x4x1x1xf32> {
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 4, 3, 1, 1>, dtype = f32} : () -> tensor<4x3x1x1xf32>
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 3, 1, 1>, dtype = f32} : () -> tensor<4x3x1x1xf32>
  %0 = "stepwell.conv"(%x, %v) {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x2x2xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x1x1xf32>
  %1 = "stepwell.conv"(%x, %w) {strides = array<i64: 3, 3>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x2x2xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x1x1xf32>
  %2 = "stepwell.add"(%0, %1) : (tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>) -> tensor<1x4x1x1xf32>
  return %2 : tensor<1x4x1x1xf32>
}

// -----

// Products are summed in i32, but the sum of the weights would wrap around in i8.
// CHECK-LABEL: func.func @negative_bytes
// CHECK: %[[A:.+]] = "stepwell.conv"
// CHECK: %[[B:.+]] = "stepwell.conv"
// CHECK-NEXT: "stepwell.add"(%[[A]], %[[B]])
func.func @negative_bytes(%x: tensor<1x3x8x8xui8>) -> tensor<1x4x8x8xi32> {
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 4, 3, 1, 1>, dtype = i8} : () -> tensor<4x3x1x1xi8>
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 3, 1, 1>, dtype = i8} : () -> tensor<4x3x1x1xi8>
  %0 = "stepwell.conv"(%x, %v) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xui8>, tensor<4x3x1x1xi8>) -> tensor<1x4x8x8xi32>
  %1 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xui8>, tensor<4x3x1x1xi8>) -> tensor<1x4x8x8xi32>
  %2 = "stepwell.add"(%0, %1) : (tensor<1x4x8x8xi32>, tensor<1x4x8x8xi32>) -> tensor<1x4x8x8xi32>
  return %2 : tensor<1x4x8x8xi32>
}
