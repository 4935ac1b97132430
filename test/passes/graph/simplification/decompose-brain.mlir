// RUN: stepwell-opt %s --split-input-file --stepwell-decompose="machine=sapphirerapids+matrix_rate=1024" | FileCheck %s
// RUN: stepwell-opt %s --split-input-file --stepwell-decompose="machine=x86-64-v4" | FileCheck %s --check-prefix=VECTORS

// A matrix unit multiplies pairs of bf16, so their products stay as they are.
// CHECK-LABEL: func.func @matmul
// CHECK-NOT:     stepwell.cast
// VECTORS-LABEL: func.func @matmul
// VECTORS-COUNT-2: {dtype = f32}
// VECTORS:       "stepwell.matmul"{{.*}} -> tensor<16x4xf32>
func.func @matmul(%x: tensor<16x8xbf16>) -> tensor<16x4xbf16> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 8, 4>, dtype = bf16} : () -> tensor<8x4xbf16>
  %0 = "stepwell.matmul"(%x, %w) : (tensor<16x8xbf16>, tensor<8x4xbf16>) -> tensor<16x4xbf16>
  return %0 : tensor<16x4xbf16>
}

// -----

// With fewer rows than the unit is used for, the weight is widened.
// CHECK-LABEL: func.func @negative_five_rows
// CHECK:         "stepwell.matmul"{{.*}} -> tensor<5x4xf32>
func.func @negative_five_rows(%x: tensor<5x8xbf16>) -> tensor<5x4xbf16> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 8, 4>, dtype = bf16} : () -> tensor<8x4xbf16>
  %0 = "stepwell.matmul"(%x, %w) : (tensor<5x8xbf16>, tensor<8x4xbf16>) -> tensor<5x4xbf16>
  return %0 : tensor<5x4xbf16>
}

// -----

// The unit multiplies no f16.
// CHECK-LABEL: func.func @negative_halves
// CHECK:         "stepwell.matmul"{{.*}} -> tensor<16x4xf32>
func.func @negative_halves(%x: tensor<16x8xf16>) -> tensor<16x4xf16> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 8, 4>, dtype = f16} : () -> tensor<8x4xf16>
  %0 = "stepwell.matmul"(%x, %w) : (tensor<16x8xf16>, tensor<8x4xf16>) -> tensor<16x4xf16>
  return %0 : tensor<16x4xf16>
}

// -----

// A convolution of single channels is no product of matrices.
// CHECK-LABEL: func.func @negative_depthwise
// CHECK:         "stepwell.conv"{{.*}} -> tensor<1x4x4x4xf32>
func.func @negative_depthwise(%x: tensor<1x6x6x4xbf16>) -> tensor<1x4x4x4xbf16> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 1, 3, 3>, dtype = bf16} : () -> tensor<4x1x3x3xbf16>
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
      dilations = array<i64: 1, 1>, layout = "channels_last", group = 4 : i64}
      : (tensor<1x6x6x4xbf16>, tensor<4x1x3x3xbf16>) -> tensor<1x4x4x4xbf16>
  return %0 : tensor<1x4x4x4xbf16>
}
