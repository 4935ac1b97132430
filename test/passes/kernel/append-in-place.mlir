// RUN: stepwell-opt %s --stepwell-append-in-place --split-input-file | FileCheck %s

// A past that is returned, which may be updated in place, has other entries than one that is not; the third is also
// read by another op, and stays.
// CHECK: stepwell.table = [{{.*}}past{{.*}}%stride.0.0{{.*}}%copied.0{{.*}}%stride.1.0{{.*}}%copied.1
module attributes {stepwell.table = ["\"past\""], stepwell.ranges = {past = [0, 7, 1]}} {
  // CHECK:      func.func @main(%[[KEY:[a-z0-9]+]]: tensor<2x7x4xf32> {stepwell.layout = array<i64: 1, 2>},
  // CHECK-SAME: %[[VALUE:[a-z0-9]+]]: tensor<2x7x4xf32> {stepwell.layout = array<i64: 3, 4>},
  // CHECK-SAME: %[[OTHER:[a-z0-9]+]]: tensor<2x7x4xf32>,
  // CHECK-SAME: -> (tensor<2x8x4xf32>, tensor<2x8x4xf32> {stepwell.appended_to = 0 : i64}, tensor<2x8x4xf32>, tensor<2x7x4xf32>)
  func.func @main(%key: tensor<2x7x4xf32>, %value: tensor<2x7x4xf32>, %other: tensor<2x7x4xf32>, %new: tensor<2x1x4xf32>, %table: tensor<4xi64>)
      -> (tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x7x4xf32>) {
    // CHECK: stepwell.append"(%[[KEY]]{{.*}}layout = array<i64: 1, 2>
    %0 = "stepwell.append"(%key, %new, %table) {axis = 1 : i64, ends = array<i64: 0, -1>, layout = array<i64>}
      : (tensor<2x7x4xf32>, tensor<2x1x4xf32>, tensor<4xi64>) -> tensor<2x8x4xf32>
    // CHECK: stepwell.append"(%[[VALUE]]{{.*}}layout = array<i64: 3, 4>
    %1 = "stepwell.append"(%value, %new, %table) {axis = 1 : i64, ends = array<i64: 0, -1>, layout = array<i64>}
      : (tensor<2x7x4xf32>, tensor<2x1x4xf32>, tensor<4xi64>) -> tensor<2x8x4xf32>
    %2 = "stepwell.exp"(%1) : (tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
    // CHECK: stepwell.append"(%[[OTHER]]{{.*}}layout = array<i64>
    %3 = "stepwell.append"(%other, %new, %table) {axis = 1 : i64, ends = array<i64: 0, -1>, layout = array<i64>}
      : (tensor<2x7x4xf32>, tensor<2x1x4xf32>, tensor<4xi64>) -> tensor<2x8x4xf32>
    %4 = "stepwell.exp"(%other) : (tensor<2x7x4xf32>) -> tensor<2x7x4xf32>
    return %2, %0, %3, %4 : tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x7x4xf32>
  }
}

// -----

// Rows of an input whose other dimension varies lie closer together than those of the upper bounds.
// CHECK-LABEL: stepwell.ranges = {m = [1, 4, 1]
// CHECK-NOT:   stepwell.layout
// CHECK:       stepwell.append{{.*}}layout = array<i64>
module attributes {stepwell.table = ["\"n\"", "\"m\""], stepwell.ranges = {n = [1, 7, 1], m = [1, 4, 1]}} {
  func.func @main(%x: tensor<7x4xf32> {stepwell.extents = array<i64: 0, 1>}, %new: tensor<1x4xf32>, %table: tensor<4xi64>)
      -> tensor<8x4xf32> {
    %0 = "stepwell.append"(%x, %new, %table) {axis = 0 : i64, ends = array<i64: 0, -1>, layout = array<i64>}
      : (tensor<7x4xf32>, tensor<1x4xf32>, tensor<4xi64>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}

// -----

// A pool of rows shares memory with the result; one that is also read elsewhere is copied.
// CHECK: stepwell.table = [{{.*}}n{{.*}}%copied.0
module attributes {stepwell.table = ["\"n\""], stepwell.ranges = {n = [1, 4, 1]}} {
  // CHECK:      func.func @main(%[[POOL:[a-z0-9]+]]: tensor<2x8x4xf32> {stepwell.layout = array<i64: 1>}, %[[READ:[a-z0-9]+]]: tensor<2x8x4xf32>,
  // CHECK-SAME: -> (tensor<2x8x4xf32> {stepwell.appended_to = 0 : i64}, tensor<2x8x4xf32>, tensor<2x8x4xf32>)
  func.func @main(%pool: tensor<2x8x4xf32>, %read: tensor<2x8x4xf32>, %new: tensor<4x2x1x4xf32>, %slots: tensor<4x1xi64>, %table: tensor<4xi64>)
      -> (tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>) {
    // CHECK: stepwell.store_rows"(%[[POOL]]{{.*}}layout = array<i64: 1>
    %0 = "stepwell.store_rows"(%pool, %new, %slots, %table) {ends = array<i64: 0, -1>} : (tensor<2x8x4xf32>, tensor<4x2x1x4xf32>, tensor<4x1xi64>, tensor<4xi64>) -> tensor<2x8x4xf32>
    // CHECK: stepwell.store_rows"(%[[READ]]{{.*}}layout = array<i64>
    %1 = "stepwell.store_rows"(%read, %new, %slots, %table) {ends = array<i64: 0, -1>, layout = array<i64>} : (tensor<2x8x4xf32>, tensor<4x2x1x4xf32>, tensor<4x1xi64>, tensor<4xi64>) -> tensor<2x8x4xf32>
    %2 = "stepwell.exp"(%read) : (tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
    return %0, %1, %2 : tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>
  }
}
