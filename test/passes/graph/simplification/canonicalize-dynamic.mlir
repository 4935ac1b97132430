// RUN: stepwell-opt %s --stepwell-canonicalize | FileCheck %s

// CHECK-LABEL: func.func @reshape
func.func @reshape(%x: tensor<4x6xf32>) -> tensor<2x12xf32> {
  %shape = "stepwell.constant"() {value = dense<[2, -1]> : tensor<2xi64>} : () -> tensor<2xi64>
  // CHECK-NEXT: "stepwell.reshape"(%{{.+}}) {shape = array<i64: 2, 12>}
  %0 = "stepwell.dynamic_reshape"(%x, %shape) : (tensor<4x6xf32>, tensor<2xi64>) -> tensor<2x12xf32>
  return %0 : tensor<2x12xf32>
}

// CHECK-LABEL: func.func @negative_reshape_of_unknown_shape
func.func @negative_reshape_of_unknown_shape(%x: tensor<4x6xf32>, %shape: tensor<2xi64>) -> tensor<?x?xf32> {
  // CHECK-NEXT: stepwell.dynamic_reshape
  %0 = "stepwell.dynamic_reshape"(%x, %shape) : (tensor<4x6xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}

// CHECK-LABEL: func.func @slice_backwards
func.func @slice_backwards(%x: tensor<4x6xf32>) -> tensor<4x3xf32> {
  %start = "stepwell.constant"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %end = "stepwell.constant"() {value = dense<-9> : tensor<1xi64>} : () -> tensor<1xi64>
  %axis = "stepwell.constant"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  %step = "stepwell.constant"() {value = dense<-2> : tensor<1xi64>} : () -> tensor<1xi64>
  // CHECK-NEXT: %[[REVERSED:.+]] = "stepwell.reverse"(%{{.+}}) {axes = array<i64: 1>}
  // CHECK-NEXT: "stepwell.slice"(%[[REVERSED]]) {starts = array<i64: 0, 0>, steps = array<i64: 1, 2>, stops = array<i64: 4, 6>}
  %0 = "stepwell.dynamic_slice"(%x, %start, %end, %axis, %step) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>}
    : (tensor<4x6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// CHECK-LABEL: func.func @pad
func.func @pad(%x: tensor<4x6xf32>) -> tensor<5x8xf32> {
  %pads = "stepwell.constant"() {value = dense<[1, 2, 0, 0]> : tensor<4xi64>} : () -> tensor<4xi64>
  // CHECK-NEXT: stepwell.pad
  // CHECK-SAME: high = array<i64: 0, 0>, low = array<i64: 1, 2>
  %0 = "stepwell.dynamic_pad"(%x, %pads) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (tensor<4x6xf32>, tensor<4xi64>) -> tensor<5x8xf32>
  return %0 : tensor<5x8xf32>
}

// CHECK-LABEL: func.func @resize
func.func @resize(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x8x8xf32> {
  %scales = "stepwell.constant"() {value = dense<[1.0, 1.0, 2.0, 2.0]> : tensor<4xf32>} : () -> tensor<4xf32>
  // CHECK-NEXT: stepwell.resize
  // CHECK-SAME: scales = dense<[1.000000e+00, 1.000000e+00, 2.000000e+00, 2.000000e+00]> : tensor<4xf32>
  // CHECK-SAME: sizes = array<i64: 1, 2, 8, 8>
  %0 = "stepwell.dynamic_resize"(%x, %scales) {operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<1x2x4x4xf32>, tensor<4xf32>) -> tensor<1x2x8x8xf32>
  return %0 : tensor<1x2x8x8xf32>
}

// CHECK-LABEL: func.func @gather_of_constant_index
func.func @gather_of_constant_index(%x: tensor<2x5xf32>) -> tensor<2xf32> {
  %i = "stepwell.constant"() {value = dense<-1> : tensor<i64>} : () -> tensor<i64>
  // CHECK-NEXT: %[[PART:.+]] = "stepwell.slice"(%{{.+}}) {starts = array<i64: 0, 4>, steps = array<i64: 1, 1>, stops = array<i64: 2, 5>}
  // CHECK-NEXT: "stepwell.reshape"(%[[PART]]) {shape = array<i64: 2>}
  %0 = "stepwell.gather"(%x, %i) {axis = 1 : i64} : (tensor<2x5xf32>, tensor<i64>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
