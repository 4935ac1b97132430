// RUN: stepwell-opt %s --stepwell-append-in-place --split-input-file | FileCheck %s

// Of two results that could share the memory of an input, only the first one does.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    -> (tensor<8x4xf32> {stepwell.appended_to = 0 : i64}, tensor<8x4xf32>)
// CHECK-COUNT-2: stepwell.append{{.*}}layout = array<i64: 1>}
module attributes {stepwell.table = ["\"n\""], stepwell.ranges = {n = [1, 7, 1]}} {
  func.func @main(%x: tensor<7x4xf32>, %one: tensor<1x4xf32>, %other: tensor<1x4xf32>, %table: tensor<4xi64>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
    %0 = "stepwell.append"(%x, %one, %table) {axis = 0 : i64, ends = array<i64: 0, -1>, layout = array<i64>} : (tensor<7x4xf32>, tensor<1x4xf32>, tensor<4xi64>) -> tensor<8x4xf32>
    %1 = "stepwell.append"(%x, %other, %table) {axis = 0 : i64, ends = array<i64: 0, -1>, layout = array<i64>} : (tensor<7x4xf32>, tensor<1x4xf32>, tensor<4xi64>) -> tensor<8x4xf32>
    return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
  }
}

// -----

// If a dimension before the one that grows varies, the caller's memory ends at its size in a call.
// CHECK-LABEL: func.func @main
// CHECK:         stepwell.append{{.*}}held = array<i64: 1>, layout = array<i64: 2, 3>
// CHECK:         stepwell.append"({{[^)]+}}) {axis = 1 : i64, ends = array<i64: 0, -1>, held = array<i64>, layout = array<i64: 2, 3>}
module attributes {stepwell.table = ["\"n\"", "\"b\""], stepwell.ranges = {n = [1, 7, 1], b = [1, 2, 1]}} {
  func.func @main(%x: tensor<2x7xf32> {stepwell.extents = array<i64: 1, 0>}, %y: tensor<2x7xf32> {stepwell.extents = array<i64: -1, 0>}, %new: tensor<2x1xf32>, %table: tensor<4xi64>) -> (tensor<2x8xf32>, tensor<2x8xf32>) {
    %0 = "stepwell.append"(%x, %new, %table) {axis = 1 : i64, ends = array<i64: 0, -1>, layout = array<i64>} : (tensor<2x7xf32>, tensor<2x1xf32>, tensor<4xi64>) -> tensor<2x8xf32>
    %1 = "stepwell.append"(%y, %new, %table) {axis = 1 : i64, ends = array<i64: 0, -1>, layout = array<i64>} : (tensor<2x7xf32>, tensor<2x1xf32>, tensor<4xi64>) -> tensor<2x8xf32>
    return %0, %1 : tensor<2x8xf32>, tensor<2x8xf32>
  }
}
