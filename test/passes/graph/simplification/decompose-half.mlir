// RUN: stepwell-opt %s --split-input-file --stepwell-decompose | FileCheck %s
// RUN: stepwell-opt %s --split-input-file --stepwell-decompose='attention=tiles widens-half=false' | FileCheck %s --check-prefix=GPU

// CPUs multiply 32-bit floats: a weight is widened once, and the result is rounded once.
// CHECK-LABEL: func.func @main
// CHECK:         %[[W:.+]] = "stepwell.parameter"
// CHECK-DAG:     %[[X32:.+]] = "stepwell.cast"(%{{.+}}) {dtype = f32}
// CHECK-DAG:     %[[W32:.+]] = "stepwell.cast"(%[[W]]) {dtype = f32}
// CHECK:         %[[Y:.+]] = "stepwell.matmul"(%[[X32]], %[[W32]])
// CHECK:         "stepwell.cast"(%[[Y]]) {dtype = f16}
// GPU-LABEL:   func.func @main
// GPU-NOT:       stepwell.cast
func.func @main(%x: tensor<16x8xf16>) -> tensor<16x4xf16> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 8, 4>, dtype = f16} : () -> tensor<8x4xf16>
  %0 = "stepwell.matmul"(%x, %w) : (tensor<16x8xf16>, tensor<8x4xf16>) -> tensor<16x4xf16>
  return %0 : tensor<16x4xf16>
}

// -----

// Pixels are rows; the bias is widened too.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-3: {dtype = f32}
// CHECK:         %[[Y:.+]] = "stepwell.conv"
// CHECK:         "stepwell.cast"(%[[Y]]) {dtype = bf16}
func.func @main(%x: tensor<1x6x6x3xbf16>, %b: tensor<4xbf16>) -> tensor<1x4x4x4xbf16> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 3, 3, 3>, dtype = bf16} : () -> tensor<4x3x3x3xbf16>
  %0 = "stepwell.conv"(%x, %w, %b) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
      dilations = array<i64: 1, 1>, layout = "channels_last"}
      : (tensor<1x6x6x3xbf16>, tensor<4x3x3x3xbf16>, tensor<4xbf16>) -> tensor<1x4x4x4xbf16>
  return %0 : tensor<1x4x4x4xbf16>
}

// -----

// A single row takes as long as loading the weight; a value that every run computes is not a weight.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     stepwell.cast
func.func @main(%x: tensor<1x8xf16>, %y: tensor<16x8xf16>, %z: tensor<8x4xf16>) -> (tensor<1x4xf16>, tensor<16x4xf16>) {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 8, 4>, dtype = f16} : () -> tensor<8x4xf16>
  %0 = "stepwell.matmul"(%x, %w) : (tensor<1x8xf16>, tensor<8x4xf16>) -> tensor<1x4xf16>
  %1 = "stepwell.matmul"(%y, %z) : (tensor<16x8xf16>, tensor<8x4xf16>) -> tensor<16x4xf16>
  return %0, %1 : tensor<1x4xf16>, tensor<16x4xf16>
}
