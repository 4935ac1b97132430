// RUN: stepwell-opt %s --split-input-file --stepwell-convert-to-linalg | FileCheck %s

// Copies of both operands, each as vectors and as elements, and zeros up to where the result is read.
// CHECK-LABEL: func.func private @append(
// CHECK-DAG:     %[[ZEROS:.+]] = arith.constant dense<0.000000e+00> : vector<16xf32>
// CHECK-DAG:     %[[ZERO:.+]] = arith.constant 0.000000e+00 : f32
// CHECK:         %[[OLD:.+]] = tensor.extract %{{.+}} : tensor<14xf32>
// CHECK:         tensor.insert %[[OLD]] into
// CHECK:         %[[NEW:.+]] = tensor.extract %{{.+}} : tensor<2xf32>
// CHECK:         tensor.insert %[[NEW]] into
// CHECK:         vector.transfer_write %[[ZEROS]]
// CHECK:         tensor.insert %[[ZERO]] into %{{.+}} : tensor<16xf32>
module attributes {stepwell.table = ["\"n\"", "\"n + 1\""], stepwell.ranges = {n = [1, 7, 1]}} {
  func.func private @append(%x: tensor<7x2xf32>, %new: tensor<1x2xf32>, %table: tensor<256xi64>) -> tensor<8x2xf32> attributes {stepwell.kernel = {bytes = 8 : i64, class = "movement", flops = 0 : i64}, stepwell.extents = array<i64: -1, -1>, stepwell.table_argument = 2 : i64} {
    %0 = "stepwell.append"(%x, %new, %table) {axis = 0 : i64, ends = array<i64: 0, -1>, layout = array<i64>} : (tensor<7x2xf32>, tensor<1x2xf32>, tensor<256xi64>) -> tensor<8x2xf32>
    return %0 : tensor<8x2xf32>
  }
}

// -----

// All rows are read, but the caller's memory ends at the size of a call: rows behind it are zeros.
// CHECK-LABEL: func.func private @held(
// CHECK:         %[[IS_HELD:.+]] = arith.cmpi slt
// CHECK:         arith.select %[[IS_HELD]]
// CHECK:         arith.select %[[IS_HELD]], %c0
module attributes {stepwell.table = ["\"n\"", "\"n + 1\"", "\"b\"", "\"stride\"", "\"copied\""], stepwell.ranges = {n = [1, 7, 1], b = [1, 3, 1]}} {
  func.func private @held(%x: tensor<3x7x2xf32>, %new: tensor<3x1x2xf32>, %table: tensor<256xi64>) -> tensor<3x8x2xf32> attributes {stepwell.kernel = {bytes = 8 : i64, class = "movement", flops = 0 : i64}, stepwell.extents = array<i64: -1, -1, -1>, stepwell.table_argument = 2 : i64} {
    %0 = "stepwell.append"(%x, %new, %table) {axis = 1 : i64, ends = array<i64: 0, -1>, layout = array<i64: 3, 4>, held = array<i64: 2>} : (tensor<3x7x2xf32>, tensor<3x1x2xf32>, tensor<256xi64>) -> tensor<3x8x2xf32>
    return %0 : tensor<3x8x2xf32>
  }
}

// -----

// Without such an end, all rows of all matrices are copied.
// CHECK-LABEL: func.func private @whole(
// CHECK-NOT:     arith.cmpi
// CHECK:         return
module attributes {stepwell.table = ["\"n\"", "\"n + 1\""], stepwell.ranges = {n = [1, 7, 1]}} {
  func.func private @whole(%x: tensor<3x7x2xf32>, %new: tensor<3x1x2xf32>, %table: tensor<256xi64>) -> tensor<3x8x2xf32> attributes {stepwell.kernel = {bytes = 8 : i64, class = "movement", flops = 0 : i64}, stepwell.extents = array<i64: -1, -1, -1>, stepwell.table_argument = 2 : i64} {
    %0 = "stepwell.append"(%x, %new, %table) {axis = 1 : i64, ends = array<i64: 0, -1>, layout = array<i64>} : (tensor<3x7x2xf32>, tensor<3x1x2xf32>, tensor<256xi64>) -> tensor<3x8x2xf32>
    return %0 : tensor<3x8x2xf32>
  }
}
