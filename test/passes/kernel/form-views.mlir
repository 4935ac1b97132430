// RUN: stepwell-opt %s --split-input-file --stepwell-form-views | FileCheck %s

// Padding becomes a border around its operand, and a concatenation inside it becomes a part of the same tensor.
// CHECK-LABEL: func.func @main
// CHECK:         %[[BORDER:.+]] = "stepwell.border"()
// CHECK-SAME:      high = array<i64: 1, 0>, low = array<i64: 1, 0>, shape = array<i64: 6, 16>, value = dense<0.000000e+00>
// CHECK:         %[[A:.+]] = "stepwell.relu"
// CHECK:         %[[ONE:.+]] = tensor.insert_slice %[[A]] into %[[BORDER]][1, 0] [4, 8] [1, 1]
// CHECK:         %[[B:.+]] = "stepwell.tanh"
// CHECK:         %[[TWO:.+]] = tensor.insert_slice %[[B]] into %[[ONE]][1, 8] [4, 8] [1, 1]
// CHECK-NOT:     stepwell.concat
// CHECK:         %[[C:.+]] = tensor.extract_slice %[[TWO]][1, 0] [4, 16] [1, 1]
// CHECK:         "stepwell.exp"(%[[C]])
// CHECK:         "stepwell.neg"(%[[TWO]])
func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x16xf32>, tensor<6x16xf32>) {
  %a = "stepwell.relu"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = "stepwell.tanh"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = "stepwell.concat"(%a, %b) {axis = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  %0 = "stepwell.exp"(%c) : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %p = "stepwell.pad"(%c) {low = array<i64: 1, 0>, high = array<i64: 1, 0>} : (tensor<4x16xf32>) -> tensor<6x16xf32>
  %1 = "stepwell.neg"(%p) : (tensor<6x16xf32>) -> tensor<6x16xf32>
  return %0, %1 : tensor<4x16xf32>, tensor<6x16xf32>
}

// -----

// An input cannot be made in place, nor can a value that has another place already: they are copied.
// CHECK-LABEL: func.func @main
// CHECK:         %[[WHOLE:.+]] = tensor.empty() : tensor<4x24xf32>
// CHECK:         %[[A:.+]] = "stepwell.relu"
// CHECK:         %[[ONE:.+]] = tensor.insert_slice %[[A]] into %[[WHOLE]][0, 8]
// CHECK:         %[[X:.+]] = "stepwell.slice"
// CHECK:         %[[TWO:.+]] = tensor.insert_slice %[[X]] into %[[ONE]][0, 0]
// CHECK:         %[[AGAIN:.+]] = "stepwell.slice"(%{{.+}})
// CHECK:         %[[THREE:.+]] = tensor.insert_slice %[[AGAIN]] into %{{.+}}[0, 16]
// CHECK:         return %[[THREE]]
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x24xf32> {
  %a = "stepwell.relu"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = "stepwell.concat"(%x, %a) {axis = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  %1 = "stepwell.concat"(%0, %a) {axis = 1 : i64} : (tensor<4x16xf32>, tensor<4x8xf32>) -> tensor<4x24xf32>
  return %1 : tensor<4x24xf32>
}

// -----

// A value padded in two ways is padded once; a slice is read in place.
// CHECK-LABEL: func.func @main
// CHECK:         %[[BORDER:.+]] = "stepwell.border"() {{.*}} shape = array<i64: 8, 8>
// CHECK:         %[[A:.+]] = "stepwell.relu"
// CHECK:         %[[WIDE:.+]] = tensor.insert_slice %[[A]] into %[[BORDER]][2, 0]
// CHECK:         %[[NARROW:.+]] = tensor.extract_slice %[[WIDE]][1, 0] [6, 8] [1, 1]
// CHECK:         "stepwell.exp"(%[[NARROW]])
// CHECK:         "stepwell.neg"(%[[WIDE]])
func.func @main(%x: tensor<4x8xf32>) -> (tensor<6x8xf32>, tensor<8x8xf32>) {
  %a = "stepwell.relu"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %p = "stepwell.pad"(%a) {low = array<i64: 1, 0>, high = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<6x8xf32>
  %0 = "stepwell.exp"(%p) : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %q = "stepwell.pad"(%a) {low = array<i64: 2, 0>, high = array<i64: 2, 0>} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %1 = "stepwell.neg"(%q) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0, %1 : tensor<6x8xf32>, tensor<8x8xf32>
}

// -----

// None of these operands can be made in place: one kernel for each op is less than one for every operand.
// CHECK-LABEL: func.func @negative_inputs
// CHECK:         stepwell.concat
// CHECK:         stepwell.pad
// CHECK:       func.func @main
func.func @negative_inputs(%x: tensor<4x8xf32>) -> tensor<6x16xf32> {
  %0 = "stepwell.concat"(%x, %x) {axis = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  %1 = "stepwell.pad"(%0) {low = array<i64: 1, 0>, high = array<i64: 1, 0>} : (tensor<4x16xf32>) -> tensor<6x16xf32>
  return %1 : tensor<6x16xf32>
}

// Results of the model, slices with a step over columns, and weights are not views.
// CHECK-COUNT-3: stepwell.slice
func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 8>, dtype = f32} : () -> tensor<4x8xf32>
  %0 = "stepwell.slice"(%x) {starts = array<i64: 0, 0>, stops = array<i64: 4, 4>, steps = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %1 = "stepwell.slice"(%x) {starts = array<i64: 0, 0>, stops = array<i64: 4, 8>, steps = array<i64: 1, 2>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %2 = "stepwell.slice"(%w) {starts = array<i64: 0, 0>, stops = array<i64: 4, 4>, steps = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %3 = "stepwell.add"(%1, %2) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0, %3 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Every kernel reads whole rows of the outermost dimension where they lie, also in another shape.
// CHECK:         %[[ROWS:.+]] = tensor.extract_slice %arg0[2, 0] [8, 6] [1, 1]
// CHECK:         %[[SPLIT:.+]] = "stepwell.reshape"(%[[ROWS]])
// CHECK:         "stepwell.matmul"(%[[SPLIT]], %arg1)
func.func @main(%x: tensor<11x6xf32>, %y: tensor<2x6x3xf32>) -> tensor<2x4x3xf32> {
  %0 = "stepwell.slice"(%x) {starts = array<i64: 2, 0>, stops = array<i64: 10, 6>, steps = array<i64: 1, 1>} : (tensor<11x6xf32>) -> tensor<8x6xf32>
  %1 = "stepwell.reshape"(%0) {shape = array<i64: 2, 4, 6>} : (tensor<8x6xf32>) -> tensor<2x4x6xf32>
  %2 = "stepwell.matmul"(%1, %y) : (tensor<2x4x6xf32>, tensor<2x6x3xf32>) -> tensor<2x4x3xf32>
  return %2 : tensor<2x4x3xf32>
}

// -----

// Columns are not contiguous, and a result of the model is a tensor of its own.
// CHECK-COUNT-2: stepwell.slice
func.func @main(%x: tensor<11x6xf32>, %y: tensor<2x3x3xf32>) -> (tensor<2x4x3xf32>, tensor<2x4x6xf32>) {
  %0 = "stepwell.slice"(%x) {starts = array<i64: 0, 0>, stops = array<i64: 8, 3>, steps = array<i64: 1, 1>} : (tensor<11x6xf32>) -> tensor<8x3xf32>
  %1 = "stepwell.reshape"(%0) {shape = array<i64: 2, 4, 3>} : (tensor<8x3xf32>) -> tensor<2x4x3xf32>
  %2 = "stepwell.matmul"(%1, %y) : (tensor<2x4x3xf32>, tensor<2x3x3xf32>) -> tensor<2x4x3xf32>
  %3 = "stepwell.slice"(%x) {starts = array<i64: 2, 0>, stops = array<i64: 10, 6>, steps = array<i64: 1, 1>} : (tensor<11x6xf32>) -> tensor<8x6xf32>
  %4 = "stepwell.reshape"(%3) {shape = array<i64: 2, 4, 6>} : (tensor<8x6xf32>) -> tensor<2x4x6xf32>
  return %2, %4 : tensor<2x4x3xf32>, tensor<2x4x6xf32>
}
