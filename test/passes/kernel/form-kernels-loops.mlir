// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-form-kernels)' --split-input-file | FileCheck %s

// A value computed in the iterations of a loop ends where its readers do, and so do its own operands: the table has the
// number of live rows.
// CHECK-LABEL: func.func @main
// CHECK: scf.for
// CHECK: func.func private @{{.*}}attributes {stepwell.extents = array<i64: 0, -1>
// CHECK-NEXT: "stepwell.add"
// CHECK: func.func private @{{.*}}attributes {stepwell.extents = array<i64: 1, 0, -1>
// CHECK-NEXT: "stepwell.exp"
module attributes {stepwell.table = ["\"n\"", "\"t\""]} {
  func.func @main(%x: tensor<9x8x16xf32>, %table: tensor<256xi64>)
      -> (tensor<8x16xf32> {stepwell.extents = array<i64: 0, -1>}) {
    %first = "stepwell.exp"(%x) : (tensor<9x8x16xf32>) -> tensor<9x8x16xf32>
    %zeros = "stepwell.constant"() {value = dense<0.0> : tensor<8x16xf32>} : () -> tensor<8x16xf32>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c9 = arith.constant 9 : index
    %0 = scf.for %i = %c0 to %c9 step %c1 iter_args(%state = %zeros) -> (tensor<8x16xf32>) {
      %row = tensor.extract_slice %first[%i, 0, 0] [1, 8, 16] [1, 1, 1] {stepwell.rows = 1 : i64}
        : tensor<9x8x16xf32> to tensor<8x16xf32>
      %next = "stepwell.add"(%state, %row) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
      scf.yield %next : tensor<8x16xf32>
    }
    return %0 : tensor<8x16xf32>
  }
}

// -----

// The last row of one iteration is the first row of the next: all rows are needed.
// CHECK-LABEL: func.func @main
// CHECK: func.func private @kernel_0({{.*}}attributes {stepwell.kernel =
// CHECK: func.func private @kernel_1({{.*}}attributes {stepwell.extents = array<i64: 0, -1>
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<8x16xf32>, %table: tensor<256xi64>)
      -> (tensor<8x16xf32> {stepwell.extents = array<i64: 0, -1>}) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c9 = arith.constant 9 : index
    %0 = scf.for %i = %c0 to %c9 step %c1 iter_args(%state = %x) -> (tensor<8x16xf32>) {
      %next = "stepwell.reverse"(%state) {axes = array<i64: 0>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
      scf.yield %next : tensor<8x16xf32>
    }
    %1 = "stepwell.exp"(%0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }
}

// -----

// Each iteration needs one row more than the next one.
// CHECK-LABEL: func.func @main
// CHECK: func.func private @kernel_0({{.*}}attributes {stepwell.kernel =
// CHECK-NEXT: "stepwell.slice"
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<8x16xf32>, %table: tensor<256xi64>)
      -> (tensor<8x16xf32> {stepwell.extents = array<i64: 0, -1>}) {
    %zero = "stepwell.constant"() {value = dense<0.0> : tensor<1x16xf32>} : () -> tensor<1x16xf32>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c9 = arith.constant 9 : index
    %0 = scf.for %i = %c0 to %c9 step %c1 iter_args(%state = %x) -> (tensor<8x16xf32>) {
      %rest = "stepwell.slice"(%state) {starts = array<i64: 1, 0>, stops = array<i64: 8, 16>, steps = array<i64: 1, 1>}
        : (tensor<8x16xf32>) -> tensor<7x16xf32>
      %next = "stepwell.concat"(%rest, %zero) {axis = 0 : i64}
        : (tensor<7x16xf32>, tensor<1x16xf32>) -> tensor<8x16xf32>
      scf.yield %next : tensor<8x16xf32>
    }
    return %0 : tensor<8x16xf32>
  }
}

// -----

// Branches need as much of their operands as is needed of their results; the condition is needed completely.
// CHECK-LABEL: func.func @main
// CHECK: scf.if
// CHECK: func.func private @{{.*}}attributes {stepwell.extents = array<i64: 0, -1>
// CHECK-NEXT: "stepwell.exp"
// CHECK: func.func private @{{.*}}attributes {stepwell.extents = array<i64: 0, -1>
// CHECK-NEXT: "stepwell.neg"
module attributes {stepwell.table = ["\"n\""]} {
  func.func @main(%x: tensor<8x16xf32>, %is: i1, %table: tensor<256xi64>)
      -> (tensor<8x16xf32> {stepwell.extents = array<i64: 0, -1>}) {
    %0 = scf.if %is -> (tensor<8x16xf32>) {
      %1 = "stepwell.exp"(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>
      scf.yield %1 : tensor<8x16xf32>
    } else {
      %2 = "stepwell.neg"(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>
      scf.yield %2 : tensor<8x16xf32>
    }
    return %0 : tensor<8x16xf32>
  }
}
