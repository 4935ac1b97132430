// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-form-kernels)' --split-input-file | FileCheck %s

// What is looked up lies where data does: no more than that is made.
// CHECK-LABEL: func.func @main
// CHECK: func.func private @{{.*}}attributes {stepwell.extents = array<i64: 1, -1>
// CHECK-NEXT: "stepwell.exp"
// CHECK: func.func private @{{.*}}attributes {stepwell.extents = array<i64: 0, -1>
// CHECK-NEXT: "stepwell.gather"
module attributes {stepwell.table = ["\"n\"", "\"m\""]} {
  func.func @main(%x: tensor<8x16xf32>, %places: tensor<12xi64>, %table: tensor<256xi64>)
      -> (tensor<12x16xf32> {stepwell.extents = array<i64: 0, -1>}) {
    %0 = "stepwell.exp"(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %1 = "stepwell.gather"(%0, %places) {axis = 0 : i64, extent = 1 : i64}
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

// Elements stay in their order, whichever dimensions become which: n rows of 8 are a quarter as many of 32.
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

// Of an inner dimension nothing follows for an outer one.
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
