// RUN: stepwell-opt %s --stepwell-append-in-place --split-input-file | FileCheck %s --implicit-check-not='layout = array<i64: ' --implicit-check-not=%copied

// Appends along different dimensions of an input would need different strides.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: stepwell.append{{.*}}layout = array<i64>}
module attributes {stepwell.table = ["\"n\""], stepwell.ranges = {n = [1, 7, 1]}} {
  func.func @main(%x: tensor<7x4xf32>, %row: tensor<1x4xf32>, %column: tensor<7x1xf32>, %table: tensor<4xi64>) -> (tensor<8x4xf32>, tensor<7x5xf32>) {
    %0 = "stepwell.append"(%x, %row, %table) {axis = 0 : i64, ends = array<i64: 0, -1>, layout = array<i64>} : (tensor<7x4xf32>, tensor<1x4xf32>, tensor<4xi64>) -> tensor<8x4xf32>
    %1 = "stepwell.append"(%x, %column, %table) {axis = 1 : i64, ends = array<i64: 0, -1>, layout = array<i64>} : (tensor<7x4xf32>, tensor<7x1xf32>, tensor<4xi64>) -> tensor<7x5xf32>
    return %0, %1 : tensor<8x4xf32>, tensor<7x5xf32>
  }
}

// -----

// A pool in which two ops store rows has two different results.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: stepwell.store_rows{{.*}}layout = array<i64>}
module attributes {stepwell.table = ["\"n\""], stepwell.ranges = {n = [1, 4, 1]}} {
  func.func @main(%pool: tensor<2x8x4xf32>, %one: tensor<4x2x1x4xf32>, %other: tensor<4x2x1x4xf32>, %slots: tensor<4x1xi64>, %table: tensor<4xi64>) -> (tensor<2x8x4xf32>, tensor<2x8x4xf32>) {
    %0 = "stepwell.store_rows"(%pool, %one, %slots, %table) {ends = array<i64: 0, -1>, layout = array<i64>} : (tensor<2x8x4xf32>, tensor<4x2x1x4xf32>, tensor<4x1xi64>, tensor<4xi64>) -> tensor<2x8x4xf32>
    %1 = "stepwell.store_rows"(%pool, %other, %slots, %table) {ends = array<i64: 0, -1>, layout = array<i64>} : (tensor<2x8x4xf32>, tensor<4x2x1x4xf32>, tensor<4x1xi64>, tensor<4xi64>) -> tensor<2x8x4xf32>
    return %0, %1 : tensor<2x8x4xf32>, tensor<2x8x4xf32>
  }
}

// -----

// Rows that are stored by an op that does not read the table of a call.
// CHECK-LABEL: func.func @main
// CHECK:       stepwell.store_rows{{.*}} : (tensor<2x8x4xf32>, tensor<4x2x1x4xf32>, tensor<4x1xi64>)
module attributes {stepwell.table = ["\"n\""], stepwell.ranges = {n = [1, 4, 1]}} {
  func.func @main(%pool: tensor<2x8x4xf32>, %new: tensor<4x2x1x4xf32>, %slots: tensor<4x1xi64>, %table: tensor<4xi64>) -> tensor<2x8x4xf32> {
    %0 = "stepwell.store_rows"(%pool, %new, %slots) : (tensor<2x8x4xf32>, tensor<4x2x1x4xf32>, tensor<4x1xi64>) -> tensor<2x8x4xf32>
    return %0 : tensor<2x8x4xf32>
  }
}
