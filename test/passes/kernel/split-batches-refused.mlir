// RUN: stepwell-opt %s --split-input-file --stepwell-split-batches="machine=x86-64-v4+l2_bytes=131072" | FileCheck %s

// There is only one image.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scf.for
func.func @main(%x: tensor<1x112x112x16xf32>) -> tensor<1x112x112x16xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 256>, dtype = f32} : () -> tensor<256xf32>
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 256>, dtype = f32} : () -> tensor<256xf32>
  %0 = "stepwell.packed_conv"(%x, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<1x112x112x16xf32>, tensor<256xf32>) -> tensor<1x112x112x16xf32>
  %1 = "stepwell.packed_conv"(%0, %v) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<1x112x112x16xf32>, tensor<256xf32>) -> tensor<1x112x112x16xf32>
  return %1 : tensor<1x112x112x16xf32>
}

// -----

// All images together fit into the cache.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scf.for
func.func @main(%x: tensor<4x7x7x16xf32>) -> tensor<4x7x7x16xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 256>, dtype = f32} : () -> tensor<256xf32>
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 256>, dtype = f32} : () -> tensor<256xf32>
  %0 = "stepwell.packed_conv"(%x, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x7x7x16xf32>, tensor<256xf32>) -> tensor<4x7x7x16xf32>
  %1 = "stepwell.packed_conv"(%0, %v) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x7x7x16xf32>, tensor<256xf32>) -> tensor<4x7x7x16xf32>
  return %1 : tensor<4x7x7x16xf32>
}

// -----

// Each image fills little of the cache: kernels for single images would be too short for threads.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scf.for
func.func @main(%x: tensor<512x7x7x16xf32>) -> tensor<512x7x7x16xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 256>, dtype = f32} : () -> tensor<256xf32>
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 256>, dtype = f32} : () -> tensor<256xf32>
  %0 = "stepwell.packed_conv"(%x, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<512x7x7x16xf32>, tensor<256xf32>) -> tensor<512x7x7x16xf32>
  %1 = "stepwell.packed_conv"(%0, %v) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<512x7x7x16xf32>, tensor<256xf32>) -> tensor<512x7x7x16xf32>
  return %1 : tensor<512x7x7x16xf32>
}

// -----

// Reading the weights again for every image takes longer than reading the activations from outer caches or memory.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scf.for
func.func @main(%x: tensor<8x4x4x2048xf32>) -> tensor<8x4x4x2048xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4194304>, dtype = f32} : () -> tensor<4194304xf32>
  %0 = "stepwell.packed_conv"(%x, %w) {columns = 2048 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<8x4x4x2048xf32>, tensor<4194304xf32>) -> tensor<8x4x4x2048xf32>
  return %0 : tensor<8x4x4x2048xf32>
}

// -----

// An image of the result depends on several images of the operand.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scf.for
func.func @main(%x: tensor<112x112x112x16xf32>) -> tensor<112x112x112x16xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 256>, dtype = f32} : () -> tensor<256xf32>
  %t = "stepwell.transpose"(%x) {permutation = array<i64: 1, 0, 2, 3>} : (tensor<112x112x112x16xf32>) -> tensor<112x112x112x16xf32>
  %0 = "stepwell.packed_conv"(%t, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<112x112x112x16xf32>, tensor<256xf32>) -> tensor<112x112x112x16xf32>
  %1 = "stepwell.packed_conv"(%0, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<112x112x112x16xf32>, tensor<256xf32>) -> tensor<112x112x112x16xf32>
  return %1 : tensor<112x112x112x16xf32>
}

// -----

// The first input that could be images has another batch size.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scf.for
func.func @main(%y: tensor<3x8x8xf32>, %x: tensor<4x112x112x16xf32>) -> tensor<4x112x112x16xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 256>, dtype = f32} : () -> tensor<256xf32>
  %0 = "stepwell.packed_conv"(%x, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x112x112x16xf32>, tensor<256xf32>) -> tensor<4x112x112x16xf32>
  %1 = "stepwell.packed_conv"(%0, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x112x112x16xf32>, tensor<256xf32>) -> tensor<4x112x112x16xf32>
  return %1 : tensor<4x112x112x16xf32>
}

// -----

// Both tensors are needed after every possible end of the loop.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scf.for
func.func @main(%x: tensor<4x112x112x16xf32>) -> (tensor<4x112x112x16xf32>, tensor<4x112x112x16xf32>) {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 256>, dtype = f32} : () -> tensor<256xf32>
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 256>, dtype = f32} : () -> tensor<256xf32>
  %0 = "stepwell.packed_conv"(%x, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x112x112x16xf32>, tensor<256xf32>) -> tensor<4x112x112x16xf32>
  %1 = "stepwell.packed_conv"(%0, %v) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x112x112x16xf32>, tensor<256xf32>) -> tensor<4x112x112x16xf32>
  return %0, %1 : tensor<4x112x112x16xf32>, tensor<4x112x112x16xf32>
}

// -----

// In a program for a range of sizes, the number of images varies.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scf.for
module attributes {stepwell.table = ["\"batch\""]} {
func.func @main(%x: tensor<4x112x112x16xf32>) -> tensor<4x112x112x16xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 256>, dtype = f32} : () -> tensor<256xf32>
  %0 = "stepwell.packed_conv"(%x, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x112x112x16xf32>, tensor<256xf32>) -> tensor<4x112x112x16xf32>
  %1 = "stepwell.packed_conv"(%0, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x112x112x16xf32>, tensor<256xf32>) -> tensor<4x112x112x16xf32>
  return %1 : tensor<4x112x112x16xf32>
}
}

// -----

// There are no images at all.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scf.for
func.func @main(%x: tensor<0x8x8x16xf32>) -> tensor<0x8x8x16xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 256>, dtype = f32} : () -> tensor<256xf32>
  %0 = "stepwell.packed_conv"(%x, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<0x8x8x16xf32>, tensor<256xf32>) -> tensor<0x8x8x16xf32>
  return %0 : tensor<0x8x8x16xf32>
}
