// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-form-kernels)' --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-form-views,stepwell-form-kernels)' --split-input-file | FileCheck %s

// Gathered elements are live data, so their producer computes no more than the live data.
// CHECK-LABEL: func.func @main
// CHECK: func.func private @{{.*}}attributes {stepwell.extents = array<i64: 1, -1>
// CHECK-NEXT: "stepwell.exp"
// CHECK: func.func private @{{.*}}attributes {stepwell.extents = array<i64: 0>
// CHECK-NEXT: "stepwell.abs"
// CHECK: func.func private @{{.*}}attributes {stepwell.extents = array<i64: 0, -1>
// CHECK-NEXT: "stepwell.gather"
module attributes {stepwell.table = ["\"n\"", "\"m\""]} {
  func.func @main(%x: tensor<8x16xf32>, %places: tensor<12xi64>, %table: tensor<256xi64>)
      -> (tensor<12x16xf32> {stepwell.extents = array<i64: 0, -1>}) {
    %0 = "stepwell.exp"(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %at = "stepwell.abs"(%places) : (tensor<12xi64>) -> tensor<12xi64>
    %1 = "stepwell.gather"(%0, %at) {axis = 0 : i64, extent = 1 : i64}
      : (tensor<8x16xf32>, tensor<12xi64>) -> tensor<12x16xf32>
    return %1 : tensor<12x16xf32>
  }
}

// -----

// CHECK-LABEL: func.func @main
// CHECK: func.func private @kernel_0({{.*}}attributes {stepwell.kernel =
// CHECK-NEXT: "stepwell.exp"
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<8x16xf32>, %places: tensor<12xi64>, %table: tensor<256xi64>)
      -> (tensor<12x16xf32> {stepwell.extents = array<i64: 0, -1>}) {
    %0 = "stepwell.exp"(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %1 = "stepwell.gather"(%0, %places) {axis = 0 : i64} : (tensor<8x16xf32>, tensor<12xi64>) -> tensor<12x16xf32>
    return %1 : tensor<12x16xf32>
  }
}

// -----

// A reshape keeps the order of elements, whatever the dimensions: n rows of 8 are n / 4 rows of 32.
// CHECK-LABEL: func.func @main
// CHECK: func.func private @{{.*}}attributes {stepwell.extents = array<i64: [[ROWS:[0-9]+]], -1>
// CHECK-NEXT: "stepwell.exp"
// CHECK: func.func private @{{.*}}attributes {stepwell.extents = array<i64: 0, -1>
// CHECK-NEXT: "stepwell.neg"
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<9x32xf32>, %table: tensor<256xi64>)
      -> (tensor<36x8xf32> {stepwell.extents = array<i64: 0, -1>}) {
    %0 = "stepwell.exp"(%x) : (tensor<9x32xf32>) -> tensor<9x32xf32>
    %1 = "stepwell.reshape"(%0) {shape = array<i64: 36, 8>} : (tensor<9x32xf32>) -> tensor<36x8xf32>
    %2 = "stepwell.neg"(%1) : (tensor<36x8xf32>) -> tensor<36x8xf32>
    return %2 : tensor<36x8xf32>
  }
}

// -----

// The live prefix of an inner dimension gives no bound for an outer one.
// CHECK-LABEL: func.func @main
// CHECK: func.func private @kernel_0({{.*}}attributes {stepwell.kernel =
// CHECK-NEXT: "stepwell.exp"
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<9x32xf32>, %table: tensor<256xi64>)
      -> (tensor<36x8xf32> {stepwell.extents = array<i64: -1, 0>}) {
    %0 = "stepwell.exp"(%x) : (tensor<9x32xf32>) -> tensor<9x32xf32>
    %1 = "stepwell.reshape"(%0) {shape = array<i64: 36, 8>} : (tensor<9x32xf32>) -> tensor<36x8xf32>
    %2 = "stepwell.neg"(%1) : (tensor<36x8xf32>) -> tensor<36x8xf32>
    return %2 : tensor<36x8xf32>
  }
}

// -----

// If each matrix has its own weight, only the weights of live matrices are needed; a shared one is needed completely.
// CHECK-LABEL: func.func @main
// CHECK: func.func private @{{.*}}attributes {stepwell.kernel =
// CHECK-NEXT: "stepwell.neg"
// CHECK: func.func private @{{.*}}attributes {stepwell.extents = array<i64: [[WEIGHTS:[0-9]+]]>
// CHECK-NEXT: "stepwell.exp"
// CHECK: func.func private @{{.*}}attributes {stepwell.extents = array<i64: 0, -1, -1>
// CHECK-NEXT: "stepwell.packed_matmul"
// CHECK: func.func private @{{.*}}attributes {stepwell.extents = array<i64: 0, -1, -1>
// CHECK-NEXT: "stepwell.packed_matmul"
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<4x8x16xf32>, %w: tensor<2048xf32>, %v: tensor<512xf32>, %table: tensor<256xi64>)
      -> (tensor<4x8x32xf32> {stepwell.extents = array<i64: 0, -1, -1>}) {
    %0 = "stepwell.neg"(%v) : (tensor<512xf32>) -> tensor<512xf32>
    %1 = "stepwell.exp"(%w) : (tensor<2048xf32>) -> tensor<2048xf32>
    %2 = "stepwell.packed_matmul"(%x, %1) {columns = 32 : i64, panel = 32 : i64, batch = 4 : i64}
      : (tensor<4x8x16xf32>, tensor<2048xf32>) -> tensor<4x8x32xf32>
    %3 = "stepwell.packed_matmul"(%x, %0) {columns = 32 : i64, panel = 32 : i64, batch = 1 : i64}
      : (tensor<4x8x16xf32>, tensor<512xf32>) -> tensor<4x8x32xf32>
    %4 = "stepwell.add"(%2, %3) : (tensor<4x8x32xf32>, tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
    return %4 : tensor<4x8x32xf32>
  }
}

// -----

// The operands of an append are needed as far as they are data.
// CHECK-LABEL: func.func @main
// CHECK: func.func private @{{.*}}attributes {stepwell.extents = array<i64: 0, -1>
// CHECK-NEXT: "stepwell.exp"
// CHECK: func.func private @{{.*}}attributes {stepwell.extents = array<i64: 1, -1>
// CHECK-NEXT: "stepwell.neg"
module attributes {stepwell.table = ["\"n\"", "\"m\""]} {
  func.func @main(%x: tensor<8x16xf32>, %y: tensor<8x16xf32>, %table: tensor<256xi64>) -> tensor<16x16xf32> {
    %0 = "stepwell.exp"(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %1 = "stepwell.neg"(%y) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %2 = "stepwell.append"(%0, %1, %table) {axis = 0 : i64, ends = array<i64: 0, 1>, layout = array<i64>}
      : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<256xi64>) -> tensor<16x16xf32>
    return %2 : tensor<16x16xf32>
  }
}

// -----

// The shape of a mask of a single element does not tell which dimension it is of: the other ones are computed in full.
// CHECK-LABEL: func.func @main
// CHECK: func.func private @{{.*}}attributes {stepwell.kernel =
// CHECK-NEXT: "stepwell.softmax"
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<2x1x16xf32>, %mask: tensor<1x1x1xf32>, %table: tensor<256xi64>) -> tensor<2x16xf32> {
    %0 = "stepwell.softmax"(%x) {axis = 2 : i64} : (tensor<2x1x16xf32>) -> tensor<2x1x16xf32>
    %1 = "stepwell.mask"(%0, %mask) {otherwise = 0.0 : f64, extent = 0 : i64}
      : (tensor<2x1x16xf32>, tensor<1x1x1xf32>) -> tensor<2x1x16xf32>
    %2 = "stepwell.reduce_sum"(%1) {axes = array<i64: 1>, keepdims = false} : (tensor<2x1x16xf32>) -> tensor<2x16xf32>
    return %2 : tensor<2x16xf32>
  }
}

// -----

// A constant slice needs a constant number of rows, also where its result is needed in full: together with a reader of
// n rows, max(1, n) of them.
// CHECK-LABEL: module
// CHECK-SAME: stepwell.table = ["\22n\22", "[\22max\22, 1, \22n\22]"]
// CHECK: func.func private @{{.*}}attributes {stepwell.extents = array<i64: 1, -1>
// CHECK-NEXT: "stepwell.exp"
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<64x16xf32>, %table: tensor<256xi64>)
      -> (tensor<64x16xf32> {stepwell.extents = array<i64: 0, -1>}, tensor<1x16xf32>) {
    %0 = "stepwell.exp"(%x) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %1 = "stepwell.slice"(%0) {starts = array<i64: 0, 0>, stops = array<i64: 1, 16>, steps = array<i64: 1, 1>}
      : (tensor<64x16xf32>) -> tensor<1x16xf32>
    %2 = "stepwell.tanh"(%1) : (tensor<1x16xf32>) -> tensor<1x16xf32>
    return %0, %2 : tensor<64x16xf32>, tensor<1x16xf32>
  }
}

// -----

// If nothing else reads the rows, only a few are computed, but more than half of them completely: static loops are fast.
// CHECK-LABEL: module
// CHECK-SAME: stepwell.table = ["\22n\22", "5"]
// CHECK: func.func private @{{.*}}attributes {stepwell.extents = array<i64: 1, -1>
// CHECK-NEXT: "stepwell.exp"
// CHECK-NEXT: return
// CHECK-NOT: stepwell.extents
// CHECK: "stepwell.neg"
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<64x16xf32>, %table: tensor<256xi64>) -> (tensor<2x16xf32>, tensor<60x16xf32>) {
    %0 = "stepwell.exp"(%x) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %1 = "stepwell.slice"(%0) {starts = array<i64: 1, 0>, stops = array<i64: 6, 16>, steps = array<i64: 3, 1>}
      : (tensor<64x16xf32>) -> tensor<2x16xf32>
    %2 = "stepwell.neg"(%x) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %3 = "stepwell.slice"(%2) {starts = array<i64: 0, 0>, stops = array<i64: 60, 16>, steps = array<i64: 1, 1>}
      : (tensor<64x16xf32>) -> tensor<60x16xf32>
    return %1, %3 : tensor<2x16xf32>, tensor<60x16xf32>
  }
}
