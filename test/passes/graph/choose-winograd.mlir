// RUN: stepwell-opt %s --stepwell-choose-winograd | FileCheck %s
// RUN: stepwell-opt %s --stepwell-choose-winograd=tile=2 | FileCheck %s --check-prefix=SMALL

// The transformed weight has 36 elements instead of 9, computed in float64; the padding stays with the convolution.
// CHECK-LABEL: func.func @large_image
// CHECK: %[[W:.+]] = "stepwell.parameter"
// CHECK: %[[WIDE:.+]] = "stepwell.cast"(%[[W]]) {dtype = f64}
// CHECK: %[[TAPS:.+]] = "stepwell.reshape"(%[[WIDE]]) {{.*}} -> tensor<4096x9xf64>
// CHECK: %[[PRODUCT:.+]] = "stepwell.matmul"(%[[TAPS]], %{{.+}}) {{.*}} -> tensor<4096x36xf64>
// CHECK: "stepwell.cast"(%[[PRODUCT]]) {dtype = f32}
// CHECK: %[[CONV:.+]] = "stepwell.winograd_conv"(%{{.+}}, %{{.+}}) {columns = 64 : i64, pads = array<i64: 1, 1, 1, 1>, panel = 32 : i64, tile = 4 : i64}
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
// CHECK: "stepwell.winograd_conv"(%[[PLANES]], %{{.+}}) {columns = 64 : i64, pads = array<i64: 1, 1, 1, 1>
func.func @volumes(%x: tensor<1x4x28x28x64xf32>) -> tensor<1x4x28x28x64xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 64, 64, 3, 3, 3>, dtype = f32} : () -> tensor<64x64x3x3x3xf32>
  %0 = "stepwell.conv"(%x, %w) {layout = "channels_last", strides = array<i64: 1, 1, 1>, pads = array<i64: 1, 1, 1, 1, 1, 1>, dilations = array<i64: 1, 1, 1>}
    : (tensor<1x4x28x28x64xf32>, tensor<64x64x3x3x3xf32>) -> tensor<1x4x28x28x64xf32>
  return %0 : tensor<1x4x28x28x64xf32>
}
