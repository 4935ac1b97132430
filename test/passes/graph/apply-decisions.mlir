// RUN: stepwell-opt %s --stepwell-choose-winograd | FileCheck %s
// RUN: stepwell-opt %s --stepwell-reduce-precision | FileCheck %s --check-prefix=SHORT
// RUN: stepwell-opt %s --stepwell-apply-decisions | FileCheck %s --check-prefix=KEPT

// Decisions of the module replace those of the cost function; a value that is not possible changes nothing.
// KEPT: stepwell.decisions = {"method conv
module attributes {stepwell.decisions = {
  "method conv 1x12x14x8xf32 16x8x3x3xf32 1b1179bc" = "winograd 4",
  "method conv 1x12x14x8xf32 16x8x2x2xf32 52910df3" = "unfolded",
  "method conv 1x12x14x8xf32 8x8x3x3xf32 a3194267" = "winograd 64",
  "precision matmul 4x8xf32 8x2xf32 9d27c76e" = "bf16"
}} {
  // CHECK-LABEL: func.func @transformed
  // CHECK: stepwell.winograd_conv{{.*}} tile = 4
  func.func @transformed(%x: tensor<1x12x14x8xf32>) -> tensor<1x12x14x16xf32> {
    %w = "stepwell.parameter"() {name = "w", shape = array<i64: 16, 8, 3, 3>, dtype = f32} : () -> tensor<16x8x3x3xf32>
    %0 = "stepwell.conv"(%x, %w) {layout = "channels_last", strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
      : (tensor<1x12x14x8xf32>, tensor<16x8x3x3xf32>) -> tensor<1x12x14x16xf32>
    return %0 : tensor<1x12x14x16xf32>
  }

  // CHECK-LABEL: func.func @unfolded
  // CHECK-NOT: stepwell.conv
  // CHECK: "stepwell.matmul"(%{{.+}}, %{{.+}}) {{.*}}: (tensor<42x32xf32>, tensor<32x16xf32>)
  func.func @unfolded(%x: tensor<1x12x14x8xf32>) -> tensor<1x6x7x16xf32> {
    %w = "stepwell.parameter"() {name = "v", shape = array<i64: 16, 8, 2, 2>, dtype = f32} : () -> tensor<16x8x2x2xf32>
    %0 = "stepwell.conv"(%x, %w) {layout = "channels_last", strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<1x12x14x8xf32>, tensor<16x8x2x2xf32>) -> tensor<1x6x7x16xf32>
    return %0 : tensor<1x6x7x16xf32>
  }

  // CHECK-LABEL: func.func @negative_no_such_tile
  // CHECK-NOT: stepwell.winograd_conv
  // CHECK: stepwell.conv
  func.func @negative_no_such_tile(%x: tensor<1x12x14x8xf32>) -> tensor<1x12x14x8xf32> {
    %w = "stepwell.parameter"() {name = "u", shape = array<i64: 8, 8, 3, 3>, dtype = f32} : () -> tensor<8x8x3x3xf32>
    %0 = "stepwell.conv"(%x, %w) {layout = "channels_last", strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
      : (tensor<1x12x14x8xf32>, tensor<8x8x3x3xf32>) -> tensor<1x12x14x8xf32>
    return %0 : tensor<1x12x14x8xf32>
  }

  // SHORT-LABEL: func.func @short
  // SHORT: "stepwell.matmul"(%{{.+}}, %{{.+}}) {{.*}}: (tensor<4x8xbf16>, tensor<8x2xbf16>)
  // SHORT: "stepwell.matmul"(%{{.+}}, %{{.+}}) : (tensor<4x2xf32>, tensor<2x8xf32>)
  func.func @short(%a: tensor<4x8xf32>, %b: tensor<8x2xf32>, %c: tensor<2x8xf32>) -> tensor<4x8xf32> {
    %0 = "stepwell.matmul"(%a, %b) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    %1 = "stepwell.matmul"(%0, %c) : (tensor<4x2xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
}
