// RUN: stepwell-opt %s --stepwell-convert-to-linalg | FileCheck %s

// If the result is filled with zeros in the padding, the mask is not read.
// CHECK-LABEL: func.func private @relu
// CHECK:         linalg.generic
// CHECK-NOT:     arith.select
// CHECK:         return
func.func private @relu(%x: tensor<8x4xf32>, %mask: tensor<8x1xf32>, %table: tensor<256xi64>) -> tensor<8x4xf32>
    attributes {stepwell.kernel = {class = "elementwise"}, stepwell.extents = array<i64: 2, -1>,
                stepwell.kept = array<i64: 1, -1>, stepwell.table_argument = 2 : i64} {
  %0 = "stepwell.sqrt"(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = "stepwell.mask"(%0, %mask) {otherwise = 0.0 : f64, extent = 1 : i64}
    : (tensor<8x4xf32>, tensor<8x1xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// Otherwise the mask is read, and so it is in a kernel that does nothing else.
// CHECK-LABEL: func.func private @negative_not_filled
// CHECK:         arith.select
func.func private @negative_not_filled(%x: tensor<8x4xf32>, %mask: tensor<8x1xf32>, %table: tensor<256xi64>) -> tensor<8x4xf32>
    attributes {stepwell.kernel = {class = "elementwise"}, stepwell.extents = array<i64: 2, -1>,
                stepwell.table_argument = 2 : i64} {
  %0 = "stepwell.sqrt"(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = "stepwell.mask"(%0, %mask) {otherwise = 0.0 : f64, extent = 1 : i64}
    : (tensor<8x4xf32>, tensor<8x1xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// CHECK-LABEL: func.func private @negative_mask_alone
// CHECK:         arith.select
func.func private @negative_mask_alone(%x: tensor<8x4xf32>, %mask: tensor<8x1xf32>, %table: tensor<256xi64>) -> tensor<8x4xf32>
    attributes {stepwell.kernel = {class = "elementwise"}, stepwell.extents = array<i64: 2, -1>,
                stepwell.kept = array<i64: 1, -1>, stepwell.table_argument = 2 : i64} {
  %0 = "stepwell.mask"(%x, %mask) {otherwise = 0.0 : f64, extent = 1 : i64}
    : (tensor<8x4xf32>, tensor<8x1xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
