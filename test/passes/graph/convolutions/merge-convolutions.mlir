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

// Negative: a kernel of one tap not in the centre of the other's window, and one whose result has other readers.
// CHECK-LABEL: func.func @negative
func.func @negative(%x: tensor<1x3x8x8xf32>) -> (tensor<1x4x6x6xf32>, tensor<1x4x6x6xf32>) {
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 4, 3, 5, 5>, dtype = f32} : () -> tensor<4x3x5x5xf32>
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 3, 3, 3>, dtype = f32} : () -> tensor<4x3x3x3xf32>
  // CHECK-COUNT-3: "stepwell.conv"
  %0 = "stepwell.conv"(%x, %v) {strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>, tensor<4x3x5x5xf32>) -> tensor<1x4x6x6xf32>
  %1 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 2, 2>}
    : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32>
  %part = "stepwell.slice"(%1) {starts = array<i64: 0, 0, 0, 0>, stops = array<i64: 1, 4, 6, 6>,
    steps = array<i64: 1, 1, 1, 1>} : (tensor<1x4x8x8xf32>) -> tensor<1x4x6x6xf32>
  %2 = "stepwell.add"(%0, %part) : (tensor<1x4x6x6xf32>, tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
  %3 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  %4 = "stepwell.add"(%2, %3) : (tensor<1x4x6x6xf32>, tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
  return %3, %4 : tensor<1x4x6x6xf32>, tensor<1x4x6x6xf32>
}
