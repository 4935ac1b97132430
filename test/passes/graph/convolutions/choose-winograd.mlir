// RUN: stepwell-opt %s --stepwell-choose-winograd | FileCheck %s
// RUN: stepwell-opt %s --stepwell-choose-winograd=tile=2 | FileCheck %s --check-prefix=SMALL

// The transformed weight has 36 elements instead of 9, computed in float64; the padding stays with the convolution.
// CHECK-LABEL: func.func @large_image
// CHECK: %[[W:.+]] = "stepwell.parameter"
// CHECK: %[[WIDE:.+]] = "stepwell.cast"(%[[W]]) {dtype = f64}
// CHECK: %[[TAPS:.+]] = "stepwell.reshape"(%[[WIDE]]) {{.*}} -> tensor<4096x9xf64>
// CHECK: %[[PRODUCT:.+]] = "stepwell.matmul"(%[[TAPS]], %{{.+}}) {{.*}} -> tensor<4096x36xf64>
// CHECK: "stepwell.cast"(%[[PRODUCT]]) {dtype = f32}
// CHECK: %[[CONV:.+]] = "stepwell.winograd_conv"(%{{.+}}, %{{.+}}) {columns = 64 : i64, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, panel = 32 : i64, tile = 4 : i64}
// CHECK: "stepwell.add"(%[[CONV]], %{{.+}})
// SMALL-LABEL: func.func @large_image
// SMALL: stepwell.winograd_conv{{.*}} tile = 2
func.func @large_image(%x: tensor<1x56x56x64xf32>, %b: tensor<64xf32>) -> tensor<1x56x56x64xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 64, 64, 3, 3>, dtype = f32} : () -> tensor<64x64x3x3xf32>
  %0 = "stepwell.conv"(%x, %w, %b) {layout = "channels_last", strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x56x56x64xf32>, tensor<64x64x3x3xf32>, tensor<64xf32>) -> tensor<1x56x56x64xf32>
  return %0 : tensor<1x56x56x64xf32>
}

// With few tiles, reading four times the weight costs more than it saves.
// CHECK-LABEL: func.func @negative_small_image
// CHECK-NOT: stepwell.winograd_conv
// CHECK: stepwell.conv
func.func @negative_small_image(%x: tensor<1x7x7x512xf32>) -> tensor<1x7x7x512xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 512, 512, 3, 3>, dtype = f32} : () -> tensor<512x512x3x3xf32>
  %0 = "stepwell.conv"(%x, %w) {layout = "channels_last", strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x7x7x512xf32>, tensor<512x512x3x3xf32>) -> tensor<1x7x7x512xf32>
  return %0 : tensor<1x7x7x512xf32>
}

// CHECK-LABEL: func.func @negative_stride
// CHECK-NOT: stepwell.winograd_conv
// CHECK: stepwell.conv
// SMALL-LABEL: func.func @negative_stride
// SMALL-NOT: stepwell.winograd_conv
// SMALL: stepwell.conv
func.func @negative_stride(%x: tensor<1x56x56x64xf32>) -> tensor<1x28x28x64xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 64, 64, 3, 3>, dtype = f32} : () -> tensor<64x64x3x3xf32>
  %0 = "stepwell.conv"(%x, %w) {layout = "channels_last", strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x56x56x64xf32>, tensor<64x64x3x3xf32>) -> tensor<1x28x28x64xf32>
  return %0 : tensor<1x28x28x64xf32>
}

// The weights would have to be transformed in every run.
// SMALL-LABEL: func.func @negative_computed_weight
// SMALL-NOT: stepwell.winograd_conv
// SMALL: stepwell.conv
func.func @negative_computed_weight(%x: tensor<1x56x56x64xf32>, %w: tensor<64x64x3x3xf32>) -> tensor<1x56x56x64xf32> {
  %0 = "stepwell.conv"(%x, %w) {layout = "channels_last", strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x56x56x64xf32>, tensor<64x64x3x3xf32>) -> tensor<1x56x56x64xf32>
  return %0 : tensor<1x56x56x64xf32>
}

// Convolutions over volumes stack the planes of a window: three times the channels.
// CHECK-LABEL: func.func @volumes
// CHECK: %[[PADDED:.+]] = "stepwell.pad"(%{{.+}}) {{.*}} -> tensor<1x6x28x28x64xf32>
// CHECK-COUNT-3: "stepwell.slice"(%[[PADDED]]) {{.*}} -> tensor<1x4x28x28x64xf32>
// CHECK: %[[PLANES:.+]] = "stepwell.reshape"(%{{.+}}) {{.*}} -> tensor<4x28x28x192xf32>
// CHECK: "stepwell.transpose"(%{{.+}}) {{.*}} -> tensor<64x3x64x3x3xf32>
// CHECK: "stepwell.winograd_conv"(%[[PLANES]], %{{.+}}) {columns = 64 : i64, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>
func.func @volumes(%x: tensor<1x4x28x28x64xf32>) -> tensor<1x4x28x28x64xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 64, 64, 3, 3, 3>, dtype = f32} : () -> tensor<64x64x3x3x3xf32>
  %0 = "stepwell.conv"(%x, %w) {layout = "channels_last", strides = array<i64: 1, 1, 1>, pads = array<i64: 1, 1, 1, 1, 1, 1>, dilations = array<i64: 1, 1, 1>}
    : (tensor<1x4x28x28x64xf32>, tensor<64x64x3x3x3xf32>) -> tensor<1x4x28x28x64xf32>
  return %0 : tensor<1x4x28x28x64xf32>
}

// A sequence is an image whose rows are as long as the dilation, and windows are along its columns.
// CHECK-LABEL: func.func @sequences
// CHECK: %[[ROWS:.+]] = "stepwell.reshape"(%{{.+}}) {shape = array<i64: 1, 250, 4, 64>}
// CHECK: %[[CONV:.+]] = "stepwell.winograd_conv"(%[[ROWS]], %{{.+}}) {columns = 64 : i64, kernel = array<i64: 3, 1>, pads = array<i64: 2, 0, 0, 0>, {{.*}}tile = 4 : i64}
// CHECK: "stepwell.reshape"(%[[CONV]]) {shape = array<i64: 1, 1000, 64>}
func.func @sequences(%x: tensor<1x1000x64xf32>) -> tensor<1x1000x64xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 64, 64, 3>, dtype = f32} : () -> tensor<64x64x3xf32>
  %0 = "stepwell.conv"(%x, %w) {layout = "channels_last", strides = array<i64: 1>, pads = array<i64: 8, 0>, dilations = array<i64: 4>}
    : (tensor<1x1000x64xf32>, tensor<64x64x3xf32>) -> tensor<1x1000x64xf32>
  return %0 : tensor<1x1000x64xf32>
}

// The last row is padded, and the results beyond the end are dropped.
// CHECK-LABEL: func.func @sequences_with_a_rest
// CHECK: "stepwell.pad"(%{{.+}}) {high = array<i64: 0, 1, 0>, low = array<i64: 0, 0, 0>
// CHECK: "stepwell.winograd_conv"{{.*}} kernel = array<i64: 5, 1>, pads = array<i64: 2, 0, 2, 0>, {{.*}}tile = 2 : i64} {{.*}} -> tensor<1x334x3x64xf32>
// CHECK: "stepwell.slice"{{.*}} -> tensor<1x1001x64xf32>
func.func @sequences_with_a_rest(%x: tensor<1x1001x64xf32>) -> tensor<1x1001x64xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 64, 64, 5>, dtype = f32} : () -> tensor<64x64x5xf32>
  %0 = "stepwell.conv"(%x, %w) {layout = "channels_last", strides = array<i64: 1>, pads = array<i64: 6, 6>, dilations = array<i64: 3>}
    : (tensor<1x1001x64xf32>, tensor<64x64x5xf32>) -> tensor<1x1001x64xf32>
  return %0 : tensor<1x1001x64xf32>
}

// With one tap, or with a stride, there is nothing to save; 7 taps have no transforms of small error.
// CHECK-LABEL: func.func @negative_sequences
// CHECK-NOT: stepwell.winograd_conv
// SMALL-LABEL: func.func @negative_sequences
// SMALL-NOT: stepwell.winograd_conv
func.func @negative_sequences(%x: tensor<1x1000x64xf32>) -> (tensor<1x1000x64xf32>, tensor<1x500x64xf32>, tensor<1x1000x64xf32>) {
  %a = "stepwell.parameter"() {name = "a", shape = array<i64: 64, 64, 1>, dtype = f32} : () -> tensor<64x64x1xf32>
  %b = "stepwell.parameter"() {name = "b", shape = array<i64: 64, 64, 3>, dtype = f32} : () -> tensor<64x64x3xf32>
  %c = "stepwell.parameter"() {name = "c", shape = array<i64: 64, 64, 7>, dtype = f32} : () -> tensor<64x64x7xf32>
  %0 = "stepwell.conv"(%x, %a) {layout = "channels_last", strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>}
    : (tensor<1x1000x64xf32>, tensor<64x64x1xf32>) -> tensor<1x1000x64xf32>
  %1 = "stepwell.conv"(%x, %b) {layout = "channels_last", strides = array<i64: 2>, pads = array<i64: 1, 1>, dilations = array<i64: 1>}
    : (tensor<1x1000x64xf32>, tensor<64x64x3xf32>) -> tensor<1x500x64xf32>
  %2 = "stepwell.conv"(%x, %c) {layout = "channels_last", strides = array<i64: 1>, pads = array<i64: 3, 3>, dilations = array<i64: 1>}
    : (tensor<1x1000x64xf32>, tensor<64x64x7xf32>) -> tensor<1x1000x64xf32>
  return %0, %1, %2 : tensor<1x1000x64xf32>, tensor<1x500x64xf32>, tensor<1x1000x64xf32>
}

// Kernels with several taps in one direction, and with five in both.
// CHECK-LABEL: func.func @kernels
// SMALL-LABEL: func.func @kernels
// CHECK: stepwell.winograd_conv{{.*}} kernel = array<i64: 1, 3>, pads = array<i64: 0, 1, 0, 1>, {{.*}}tile = 4
// CHECK: stepwell.winograd_conv{{.*}} kernel = array<i64: 5, 5>, pads = array<i64: 2, 2, 2, 2>, {{.*}}tile = 2
func.func @kernels(%x: tensor<1x56x56x64xf32>) -> tensor<1x56x56x64xf32> {
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 64, 64, 1, 3>, dtype = f32} : () -> tensor<64x64x1x3xf32>
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 64, 64, 5, 5>, dtype = f32} : () -> tensor<64x64x5x5xf32>
  %0 = "stepwell.conv"(%x, %v) {layout = "channels_last", strides = array<i64: 1, 1>, pads = array<i64: 0, 1, 0, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x56x56x64xf32>, tensor<64x64x1x3xf32>) -> tensor<1x56x56x64xf32>
  %1 = "stepwell.conv"(%0, %w) {layout = "channels_last", strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 1, 1>}
    : (tensor<1x56x56x64xf32>, tensor<64x64x5x5xf32>) -> tensor<1x56x56x64xf32>
  return %1 : tensor<1x56x56x64xf32>
}
