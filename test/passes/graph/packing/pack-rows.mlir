// RUN: stepwell-opt %s --stepwell-pack-rows --split-input-file | FileCheck %s

// Live rows are kept completely; after the products, the rows are masked again.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%[[X:.+]]: tensor<4x8x512xf32>, %[[TABLE:.+]]: tensor<256xi64>)
// CHECK:         %[[LENGTH:.+]] = "stepwell.slice"(%[[TABLE]]) {starts = array<i64: 1>
// CHECK:         %[[DENSE:.+]] = "stepwell.add"(%{{.+}}, %{{.+}}) : (tensor<32xi64>, tensor<32xi64>)
// CHECK:         %[[APART:.+]] = "stepwell.add"(%{{.+}}, %{{.+}}) : (tensor<4x1xi64>, tensor<8xi64>)
// CHECK:         %[[ROWS:.+]] = "stepwell.take_rows"(%[[X]], %[[DENSE]]) {extents = array<i64: 0, 1>, leading = 2 : i64}
// CHECK:         %[[A:.+]] = "stepwell.packed_matmul"(%[[ROWS]], {{.+}} -> tensor<32x512xf32>
// CHECK-NEXT:    %[[B:.+]] = "stepwell.relu"(%[[A]]) : (tensor<32x512xf32>)
// CHECK-NEXT:    %[[C:.+]] = "stepwell.packed_matmul"(%[[B]],
// CHECK-NEXT:    %[[D:.+]] = "stepwell.layer_norm"(%[[C]], {{.+}}) {axis = 1
// CHECK-NEXT:    %[[BACK:.+]] = "stepwell.take_rows"(%[[D]], %[[APART]]) {extents = array<i64: 2>, leading = 1 : i64}
// CHECK-NEXT:    %[[Y:.+]] = "stepwell.mask"(%[[BACK]], %{{.+}}) {extent = 1
// CHECK-NEXT:    return %[[Y]]
module attributes {stepwell.table = ["\"batch\"", "\"length\""]} {
  func.func @main(%x: tensor<4x8x512xf32>, %table: tensor<256xi64>) -> (tensor<4x8x512xf32> {stepwell.extents = array<i64: 0, 1, -1>}) {
    %w = "stepwell.parameter"() {name = "w", shape = array<i64: 262144>, dtype = f32} : () -> tensor<262144xf32>
    %s = "stepwell.parameter"() {name = "s", shape = array<i64: 512>, dtype = f32} : () -> tensor<512xf32>
    %mask = "stepwell.parameter"() {name = "mask", shape = array<i64: 8, 1>, dtype = f32} : () -> tensor<8x1xf32>
    %0 = "stepwell.packed_matmul"(%x, %w) {columns = 512, panel = 32} : (tensor<4x8x512xf32>, tensor<262144xf32>) -> tensor<4x8x512xf32>
    %1 = "stepwell.relu"(%0) : (tensor<4x8x512xf32>) -> tensor<4x8x512xf32>
    %2 = "stepwell.packed_matmul"(%1, %w) {columns = 512, panel = 32} : (tensor<4x8x512xf32>, tensor<262144xf32>) -> tensor<4x8x512xf32>
    %3 = "stepwell.layer_norm"(%2, %s, %s) {axis = 2 : i64, epsilon = 1.0e-5 : f64, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<4x8x512xf32>, tensor<512xf32>, tensor<512xf32>) -> tensor<4x8x512xf32>
    %4 = "stepwell.mask"(%3, %mask) {extent = 1 : i64, otherwise = 0.0 : f64} : (tensor<4x8x512xf32>, tensor<8x1xf32>) -> tensor<4x8x512xf32>
    return %4 : tensor<4x8x512xf32>
  }
}

// -----

// A product of few columns is less work than moving its rows.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     stepwell.take_rows
module attributes {stepwell.table = ["\"batch\"", "\"length\""]} {
  func.func @main(%x: tensor<4x8x64xf32>, %table: tensor<256xi64>) -> (tensor<4x8x16xf32> {stepwell.extents = array<i64: 0, 1, -1>}) {
    %w = "stepwell.parameter"() {name = "w", shape = array<i64: 1024>, dtype = f32} : () -> tensor<1024xf32>
    %0 = "stepwell.packed_matmul"(%x, %w) {columns = 16, panel = 16} : (tensor<4x8x64xf32>, tensor<1024xf32>) -> tensor<4x8x16xf32>
    return %0 : tensor<4x8x16xf32>
  }
}

// -----

// One product of 512 columns is not enough work either; the last tile of each sequence costs less.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     stepwell.take_rows
module attributes {stepwell.table = ["\"batch\"", "\"length\""]} {
  func.func @main(%x: tensor<4x8x512xf32>, %table: tensor<256xi64>) -> (tensor<4x8x512xf32> {stepwell.extents = array<i64: 0, 1, -1>}) {
    %w = "stepwell.parameter"() {name = "w", shape = array<i64: 262144>, dtype = f32} : () -> tensor<262144xf32>
    %0 = "stepwell.packed_matmul"(%x, %w) {columns = 512, panel = 32} : (tensor<4x8x512xf32>, tensor<262144xf32>) -> tensor<4x8x512xf32>
    return %0 : tensor<4x8x512xf32>
  }
}

// -----

// Sequences of a fixed length have no padding between them.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     stepwell.take_rows
module attributes {stepwell.table = ["\"batch\""]} {
  func.func @main(%x: tensor<4x8x512xf32>, %table: tensor<256xi64>) -> (tensor<4x8x512xf32> {stepwell.extents = array<i64: 0, -1, -1>}) {
    %w = "stepwell.parameter"() {name = "w", shape = array<i64: 262144>, dtype = f32} : () -> tensor<262144xf32>
    %0 = "stepwell.packed_matmul"(%x, %w) {columns = 512, panel = 32} : (tensor<4x8x512xf32>, tensor<262144xf32>) -> tensor<4x8x512xf32>
    return %0 : tensor<4x8x512xf32>
  }
}

// -----

// Negative: what each row adds depends on its position in its sequence.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: "stepwell.packed_matmul"{{.+}} -> tensor<32x512xf32>
// CHECK-NEXT:    %[[BACK:.+]] = "stepwell.take_rows"
// CHECK-NEXT:    "stepwell.add"(%[[BACK]], %{{.+}}) : (tensor<4x8x512xf32>, tensor<8x512xf32>)
module attributes {stepwell.table = ["\"batch\"", "\"length\""]} {
  func.func @main(%x: tensor<4x8x512xf32>, %table: tensor<256xi64>) -> (tensor<4x8x512xf32> {stepwell.extents = array<i64: 0, 1, -1>}) {
    %w = "stepwell.parameter"() {name = "w", shape = array<i64: 262144>, dtype = f32} : () -> tensor<262144xf32>
    %s = "stepwell.parameter"() {name = "s", shape = array<i64: 8, 512>, dtype = f32} : () -> tensor<8x512xf32>
    %0 = "stepwell.packed_matmul"(%x, %w) {columns = 512, panel = 32} : (tensor<4x8x512xf32>, tensor<262144xf32>) -> tensor<4x8x512xf32>
    %1 = "stepwell.packed_matmul"(%0, %w) {columns = 512, panel = 32} : (tensor<4x8x512xf32>, tensor<262144xf32>) -> tensor<4x8x512xf32>
    %2 = "stepwell.add"(%1, %s) : (tensor<4x8x512xf32>, tensor<8x512xf32>) -> tensor<4x8x512xf32>
    return %2 : tensor<4x8x512xf32>
  }
}
