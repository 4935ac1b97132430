// RUN: stepwell-opt %s --split-input-file --stepwell-decompose | FileCheck %s
// RUN: stepwell-opt %s --split-input-file --stepwell-decompose='attention=tiles widens-half=false' | FileCheck %s --check-prefix=GPU

// CPUs multiply 32-bit floats: a weight is widened once, and the result is rounded once.
// CHECK-LABEL: func.func @matmul
// CHECK:         %[[W:.+]] = "stepwell.parameter"
// CHECK-DAG:     %[[X32:.+]] = "stepwell.cast"(%{{.+}}) {dtype = f32}
// CHECK-DAG:     %[[W32:.+]] = "stepwell.cast"(%[[W]]) {dtype = f32}
// CHECK:         %[[Y:.+]] = "stepwell.matmul"(%[[X32]], %[[W32]])
// CHECK:         "stepwell.cast"(%[[Y]]) {dtype = f16}
// GPU-LABEL:   func.func @matmul
// GPU-NOT:       stepwell.cast
func.func @matmul(%x: tensor<16x8xf16>) -> tensor<16x4xf16> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 8, 4>, dtype = f16} : () -> tensor<8x4xf16>
  %0 = "stepwell.matmul"(%x, %w) : (tensor<16x8xf16>, tensor<8x4xf16>) -> tensor<16x4xf16>
  return %0 : tensor<16x4xf16>
}

// -----

// Pixels are rows; the bias is widened too.
// CHECK-LABEL: func.func @conv
// CHECK-COUNT-3: {dtype = f32}
// CHECK:         %[[Y:.+]] = "stepwell.conv"
// CHECK:         "stepwell.cast"(%[[Y]]) {dtype = bf16}
func.func @conv(%x: tensor<1x6x6x3xbf16>, %b: tensor<4xbf16>) -> tensor<1x4x4x4xbf16> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 3, 3, 3>, dtype = bf16} : () -> tensor<4x3x3x3xbf16>
  %0 = "stepwell.conv"(%x, %w, %b) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
      dilations = array<i64: 1, 1>, layout = "channels_last"}
      : (tensor<1x6x6x3xbf16>, tensor<4x3x3x3xbf16>, tensor<4xbf16>) -> tensor<1x4x4x4xbf16>
  return %0 : tensor<1x4x4x4xbf16>
}

// -----

// A few rows take as long as loading the weight.
// CHECK-LABEL: func.func @negative_few_rows
// CHECK-NOT:     stepwell.cast
func.func @negative_few_rows(%x: tensor<3x8xf16>) -> tensor<3x4xf16> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 8, 4>, dtype = f16} : () -> tensor<8x4xf16>
  %0 = "stepwell.matmul"(%x, %w) : (tensor<3x8xf16>, tensor<8x4xf16>) -> tensor<3x4xf16>
  return %0 : tensor<3x4xf16>
}

// -----

// One pixel is one row, whatever the number of channels before it.
// CHECK-LABEL: func.func @negative_one_pixel
// CHECK-NOT:     stepwell.cast
func.func @negative_one_pixel(%x: tensor<1x3x1x1xf16>) -> tensor<1x8x1x1xf16> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 8, 3, 1, 1>, dtype = f16} : () -> tensor<8x3x1x1xf16>
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<1x3x1x1xf16>, tensor<8x3x1x1xf16>) -> tensor<1x8x1x1xf16>
  return %0 : tensor<1x8x1x1xf16>
}

// -----

// A value that every run computes is not a weight.
// CHECK-LABEL: func.func @negative_two_activations
// CHECK-NOT:     stepwell.cast
func.func @negative_two_activations(%y: tensor<16x8xf16>, %z: tensor<8x4xf16>) -> tensor<16x4xf16> {
  %0 = "stepwell.matmul"(%y, %z) : (tensor<16x8xf16>, tensor<8x4xf16>) -> tensor<16x4xf16>
  return %0 : tensor<16x4xf16>
}

// -----

// How many rows there are is not known.
// CHECK-LABEL: func.func @negative_unknown_rows
// CHECK-NOT:     stepwell.cast
func.func @negative_unknown_rows(%x: tensor<?x8xf16>) -> tensor<?x4xf16> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 8, 4>, dtype = f16} : () -> tensor<8x4xf16>
  %0 = "stepwell.matmul"(%x, %w) : (tensor<?x8xf16>, tensor<8x4xf16>) -> tensor<?x4xf16>
  return %0 : tensor<?x4xf16>
}

// -----

// Rounding doubles to f32 would change the values.
// CHECK-LABEL: func.func @negative_doubles
// CHECK-NOT:     stepwell.cast
func.func @negative_doubles(%x: tensor<16x8xf64>) -> tensor<16x4xf64> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 8, 4>, dtype = f64} : () -> tensor<8x4xf64>
  %0 = "stepwell.matmul"(%x, %w) : (tensor<16x8xf64>, tensor<8x4xf64>) -> tensor<16x4xf64>
  return %0 : tensor<16x4xf64>
}
