// RUN: stepwell-opt %s --stepwell-canonicalize | FileCheck %s

// Gathers and rows at constant indices are slices.

// CHECK-LABEL: func.func @gather_of_constant_index
func.func @gather_of_constant_index(%x: tensor<2x5xf32>) -> tensor<2xf32> {
  %i = "stepwell.constant"() {value = dense<-1> : tensor<i64>} : () -> tensor<i64>
  // CHECK-NEXT: %[[PART:.+]] = "stepwell.slice"(%{{.+}}) {starts = array<i64: 0, 4>, steps = array<i64: 1, 1>, stops = array<i64: 2, 5>}
  // CHECK-NEXT: "stepwell.reshape"(%[[PART]]) {shape = array<i64: 2>}
  %0 = "stepwell.gather"(%x, %i) {axis = 1 : i64} : (tensor<2x5xf32>, tensor<i64>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// CHECK-LABEL: func.func @gather_of_consecutive_indices
func.func @gather_of_consecutive_indices(%x: tensor<5xf32>) -> tensor<2xf32> {
  %i = "stepwell.constant"() {value = dense<[-3, 3]> : tensor<2xi64>} : () -> tensor<2xi64>
  // CHECK-NEXT: "stepwell.slice"(%{{.+}}) {starts = array<i64: 2>, steps = array<i64: 1>, stops = array<i64: 4>}
  %0 = "stepwell.gather"(%x, %i) {axis = 0 : i64} : (tensor<5xf32>, tensor<2xi64>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// A slice takes each element once.
// CHECK-LABEL: func.func @negative_gather_twice
func.func @negative_gather_twice(%x: tensor<5xf32>) -> tensor<3xf32> {
  %i = "stepwell.constant"() {value = dense<[0, 0, 2]> : tensor<3xi64>} : () -> tensor<3xi64>
  // CHECK: stepwell.gather
  %0 = "stepwell.gather"(%x, %i) {axis = 0 : i64} : (tensor<5xf32>, tensor<3xi64>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// The second index is out of range, and clipped to the last one.
// CHECK-LABEL: func.func @negative_gather_out_of_range
func.func @negative_gather_out_of_range(%x: tensor<5xf32>) -> tensor<2xf32> {
  %i = "stepwell.constant"() {value = dense<[4, 5]> : tensor<2xi64>} : () -> tensor<2xi64>
  // CHECK: stepwell.gather
  %0 = "stepwell.gather"(%x, %i) {axis = 0 : i64} : (tensor<5xf32>, tensor<2xi64>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// The index counts from the end, which is not known.
// CHECK-LABEL: func.func @negative_gather_from_unknown_shape
func.func @negative_gather_from_unknown_shape(%x: tensor<?xf32>) -> tensor<f32> {
  %i = "stepwell.constant"() {value = dense<-1> : tensor<i64>} : () -> tensor<i64>
  // CHECK: stepwell.gather
  %0 = "stepwell.gather"(%x, %i) {axis = 0 : i64} : (tensor<?xf32>, tensor<i64>) -> tensor<f32>
  return %0 : tensor<f32>
}

// CHECK-LABEL: func.func @negative_gather_of_nothing
func.func @negative_gather_of_nothing(%x: tensor<5xf32>) -> tensor<0xf32> {
  %i = "stepwell.constant"() {value = dense<[]> : tensor<0xi64>} : () -> tensor<0xi64>
  // CHECK: stepwell.gather
  %0 = "stepwell.gather"(%x, %i) {axis = 0 : i64} : (tensor<5xf32>, tensor<0xi64>) -> tensor<0xf32>
  return %0 : tensor<0xf32>
}

// CHECK-LABEL: func.func @row
func.func @row(%x: tensor<4x6xf32>) -> tensor<6xf32> {
  %i = "stepwell.constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
  // CHECK-NEXT: %[[PART:.+]] = "stepwell.slice"(%{{.+}}) {starts = array<i64: 2, 0>, steps = array<i64: 1, 1>, stops = array<i64: 3, 6>}
  // CHECK-NEXT: "stepwell.reshape"(%[[PART]]) {shape = array<i64: 6>}
  %0 = "stepwell.row"(%x, %i) : (tensor<4x6xf32>, tensor<i64>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// Unlike those of gathers, indices of rows do not count from the end: they are clipped.
// CHECK-LABEL: func.func @row_out_of_range
func.func @row_out_of_range(%x: tensor<4x6xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
  %before = "stepwell.constant"() {value = dense<-1> : tensor<i64>} : () -> tensor<i64>
  %after = "stepwell.constant"() {value = dense<4> : tensor<i64>} : () -> tensor<i64>
  // CHECK: "stepwell.slice"(%{{.+}}) {starts = array<i64: 0, 0>, {{.*}}stops = array<i64: 1, 6>}
  %0 = "stepwell.row"(%x, %before) : (tensor<4x6xf32>, tensor<i64>) -> tensor<6xf32>
  // CHECK: "stepwell.slice"(%{{.+}}) {starts = array<i64: 3, 0>, {{.*}}stops = array<i64: 4, 6>}
  %1 = "stepwell.row"(%x, %after) : (tensor<4x6xf32>, tensor<i64>) -> tensor<6xf32>
  return %0, %1 : tensor<6xf32>, tensor<6xf32>
}

// CHECK-LABEL: func.func @negative_row_at_unknown_index
func.func @negative_row_at_unknown_index(%x: tensor<4x6xf32>, %i: tensor<i64>) -> tensor<6xf32> {
  // CHECK-NEXT: stepwell.row
  %0 = "stepwell.row"(%x, %i) : (tensor<4x6xf32>, tensor<i64>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// CHECK-LABEL: func.func @negative_row_of_unknown_shape
func.func @negative_row_of_unknown_shape(%x: tensor<?x6xf32>) -> tensor<6xf32> {
  %i = "stepwell.constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
  // CHECK: stepwell.row
  %0 = "stepwell.row"(%x, %i) : (tensor<?x6xf32>, tensor<i64>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
