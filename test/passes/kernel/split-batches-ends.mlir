// RUN: stepwell-opt %s --split-input-file --stepwell-split-batches="machine=x86-64-v4+l2_bytes=131072" | FileCheck %s

// A loop may end before padding, which copies its result, whatever reads the result after that.
// CHECK-LABEL: func.func @main
// CHECK:         %[[ALL:.+]] = scf.for
// CHECK:         "stepwell.pad"(%[[ALL]])
func.func @main(%x: tensor<4x112x112x16xf32>) -> (tensor<5x56x56x16xf32>, tensor<1x56x56x16xf32>) {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 256>, dtype = f32} : () -> tensor<256xf32>
  %0 = "stepwell.packed_conv"(%x, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x112x112x16xf32>, tensor<256xf32>) -> tensor<4x112x112x16xf32>
  %1 = "stepwell.packed_conv"(%0, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x112x112x16xf32>, tensor<256xf32>) -> tensor<4x112x112x16xf32>
  %2 = "stepwell.max_pool"(%1) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"} : (tensor<4x112x112x16xf32>) -> tensor<4x56x56x16xf32>
  %3 = "stepwell.pad"(%2) {low = array<i64: 1, 0, 0, 0>, high = array<i64: 0, 0, 0, 0>, value = 0.0 : f64} : (tensor<4x56x56x16xf32>) -> tensor<5x56x56x16xf32>
  %4 = "stepwell.reduce_max"(%2) {axes = array<i64: 0>} : (tensor<4x56x56x16xf32>) -> tensor<1x56x56x16xf32>
  return %3, %4 : tensor<5x56x56x16xf32>, tensor<1x56x56x16xf32>
}

// -----

// An op that nothing reads is no end of a loop.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scf.for
func.func @main(%x: tensor<4x112x112x16xf32>) -> tensor<4x112x112x16xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 256>, dtype = f32} : () -> tensor<256xf32>
  %0 = "stepwell.packed_conv"(%x, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x112x112x16xf32>, tensor<256xf32>) -> tensor<4x112x112x16xf32>
  %1 = "stepwell.relu"(%0) : (tensor<4x112x112x16xf32>) -> tensor<4x112x112x16xf32>
  return %0 : tensor<4x112x112x16xf32>
}

// -----

// An op of the whole batch is fused with the last product: a loop that ends there would split a kernel.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scf.for
func.func @main(%x: tensor<4x112x112x16xf32>) -> tensor<4x112x112x16xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 256>, dtype = f32} : () -> tensor<256xf32>
  %p = "stepwell.parameter"() {name = "p", shape = array<i64: 4, 1, 1, 16>, dtype = f32} : () -> tensor<4x1x1x16xf32>
  %0 = "stepwell.packed_conv"(%x, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x112x112x16xf32>, tensor<256xf32>) -> tensor<4x112x112x16xf32>
  %1 = "stepwell.packed_conv"(%0, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x112x112x16xf32>, tensor<256xf32>) -> tensor<4x112x112x16xf32>
  %2 = "stepwell.add"(%1, %p) : (tensor<4x112x112x16xf32>, tensor<4x1x1x16xf32>) -> tensor<4x112x112x16xf32>
  return %2 : tensor<4x112x112x16xf32>
}

// -----

// Padding that is not the first reader of a result would be computed in place.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scf.for
func.func @main(%x: tensor<4x112x112x16xf32>) -> (tensor<1x112x112x16xf32>, tensor<5x112x112x16xf32>) {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 256>, dtype = f32} : () -> tensor<256xf32>
  %0 = "stepwell.packed_conv"(%x, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x112x112x16xf32>, tensor<256xf32>) -> tensor<4x112x112x16xf32>
  %1 = "stepwell.packed_conv"(%0, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x112x112x16xf32>, tensor<256xf32>) -> tensor<4x112x112x16xf32>
  %2 = "stepwell.reduce_max"(%1) {axes = array<i64: 0>} : (tensor<4x112x112x16xf32>) -> tensor<1x112x112x16xf32>
  %3 = "stepwell.pad"(%1) {low = array<i64: 1, 0, 0, 0>, high = array<i64: 0, 0, 0, 0>, value = 0.0 : f64} : (tensor<4x112x112x16xf32>) -> tensor<5x112x112x16xf32>
  return %2, %3 : tensor<1x112x112x16xf32>, tensor<5x112x112x16xf32>
}
