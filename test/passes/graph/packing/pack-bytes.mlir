// RUN: stepwell-opt %s --stepwell-pack-weights=bytes-by-depth=true | FileCheck %s

// Columns of 8-bit weights are contiguous along the summed dimension: panels of one column.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<8x16xui8>, %y: tensor<1x6x6x16xui8>) -> (tensor<8x48xi32>, tensor<1x4x4x48xi32>) {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 16, 48>, dtype = i8} : () -> tensor<16x48xi8>
  // CHECK: "stepwell.packed_matmul"{{.*}} {columns = 48 : i64, panel = 1 : i64} : (tensor<8x16xui8>, tensor<768xi8>)
  %0 = "stepwell.matmul"(%x, %w) : (tensor<8x16xui8>, tensor<16x48xi8>) -> tensor<8x48xi32>
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 48, 16, 3, 3>, dtype = i8} : () -> tensor<48x16x3x3xi8>
  // CHECK: "stepwell.packed_conv"{{.*}}panel = 1 : i64
  %1 = "stepwell.conv"(%y, %v) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, layout = "channels_last"}
    : (tensor<1x6x6x16xui8>, tensor<48x16x3x3xi8>) -> tensor<1x4x4x48xi32>
  return %0, %1 : tensor<8x48xi32>, tensor<1x4x4x48xi32>
}

// CHECK-LABEL: func.func @negative_floats
func.func @negative_floats(%x: tensor<8x16xf32>) -> tensor<8x48xf32> {
  %w = "stepwell.parameter"() {name = "u", shape = array<i64: 16, 48>, dtype = f32} : () -> tensor<16x48xf32>
  // CHECK: "stepwell.packed_matmul"{{.*}} {columns = 48 : i64, panel = 48 : i64}
  %0 = "stepwell.matmul"(%x, %w) : (tensor<8x16xf32>, tensor<16x48xf32>) -> tensor<8x48xf32>
  return %0 : tensor<8x48xf32>
}

// Packed kernels multiply ui8 by i8; other bytes are widened first.
// CHECK-LABEL: func.func @negative_unsigned_weight
func.func @negative_unsigned_weight(%x: tensor<8x16xui8>) -> tensor<8x48xi32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 16, 48>, dtype = ui8} : () -> tensor<16x48xui8>
  // CHECK: "stepwell.cast"(%{{.+}}) {dtype = i32}
  // CHECK: "stepwell.packed_matmul"{{.*}}panel = 48 : i64
  %0 = "stepwell.matmul"(%x, %w) : (tensor<8x16xui8>, tensor<16x48xui8>) -> tensor<8x48xi32>
  return %0 : tensor<8x48xi32>
}

// Bytes that every run computes are widened, and packed as integers of 32 bits.
// CHECK-LABEL: func.func @negative_two_activations
func.func @negative_two_activations(%x: tensor<8x16xui8>, %y: tensor<48x16xi8>) -> tensor<8x48xi32> {
  // CHECK-COUNT-2: "stepwell.cast"(%{{.+}}) {dtype = i32}
  // CHECK: "stepwell.packed_matmul"{{.*}} : (tensor<8x16xi32>, tensor<768xi32>)
  %0 = "stepwell.matmul"(%x, %y) {transpose_rhs = true} : (tensor<8x16xui8>, tensor<48x16xi8>) -> tensor<8x48xi32>
  return %0 : tensor<8x48xi32>
}
