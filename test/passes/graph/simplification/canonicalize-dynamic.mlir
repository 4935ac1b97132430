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

// Half of one row is no row.
// CHECK-LABEL: func.func @resize_to_nothing
func.func @resize_to_nothing(%x: tensor<?x2x1x4xf32, ["n", 2, 1, 4]>) -> tensor<?x2x0x4xf32, ["n", 2, 0, 4]> {
  %scales = "stepwell.constant"() {value = dense<[1.0, 1.0, 0.5, 1.0]> : tensor<4xf32>} : () -> tensor<4xf32>
  // CHECK-NEXT: stepwell.resize
  // CHECK-SAME: sizes = ["n", 2, 0, 4]
  %0 = "stepwell.dynamic_resize"(%x, %scales) {operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<?x2x1x4xf32, ["n", 2, 1, 4]>, tensor<4xf32>) -> tensor<?x2x0x4xf32, ["n", 2, 0, 4]>
  return %0 : tensor<?x2x0x4xf32, ["n", 2, 0, 4]>
}

// CHECK-LABEL: func.func @squeeze_and_expand
func.func @squeeze_and_expand(%x: tensor<4x1x6xf32>) -> (tensor<4x6xf32>, tensor<4x1x1x6xf32>) {
  // CHECK-NEXT: "stepwell.reshape"(%{{.+}}) {shape = array<i64: 4, 6>}
  %0 = "stepwell.squeeze"(%x) {axes = array<i64: 1>} : (tensor<4x1x6xf32>) -> tensor<4x6xf32>
  // CHECK-NEXT: "stepwell.reshape"(%{{.+}}) {shape = array<i64: 4, 1, 1, 6>}
  %1 = "stepwell.expand_dims"(%x) {axes = array<i64: 1>} : (tensor<4x1x6xf32>) -> tensor<4x1x1x6xf32>
  return %0, %1 : tensor<4x6xf32>, tensor<4x1x1x6xf32>
}

// CHECK-LABEL: func.func @broadcast
func.func @broadcast(%x: tensor<4x1xf32>) -> tensor<4x6xf32> {
  %shape = "stepwell.constant"() {value = dense<[1, 6]> : tensor<2xi64>} : () -> tensor<2xi64>
  // CHECK-NEXT: "stepwell.broadcast_to"(%{{.+}}) {shape = array<i64: 4, 6>}
  %0 = "stepwell.dynamic_broadcast_to"(%x, %shape) : (tensor<4x1xf32>, tensor<2xi64>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @negative_broadcast_to_unknown_shape
func.func @negative_broadcast_to_unknown_shape(%x: tensor<4x1xf32>, %shape: tensor<2xi64>) -> tensor<?x?xf32> {
  // CHECK-NEXT: stepwell.dynamic_broadcast_to
  %0 = "stepwell.dynamic_broadcast_to"(%x, %shape) : (tensor<4x1xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}

// CHECK-LABEL: func.func @fill
func.func @fill(%x: tensor<?xf32> {stepwell.dims = ["n"]}) -> tensor<?x8xf32, ["n", 8]> {
  // CHECK-NEXT: %[[ONE:.+]] = "stepwell.constant"() {value = dense<1.000000e+00> : tensor<f32>}
  // CHECK-NEXT: "stepwell.broadcast_to"(%[[ONE]]) {shape = ["n", 8]}
  %shape = "stepwell.sizes"() {values = ["n", 8], shape = array<i64: 2>, dtype = i64} : () -> tensor<2xi64>
  %0 = "stepwell.fill"(%shape) {value = dense<1.0> : tensor<f32>} : (tensor<2xi64>) -> tensor<?x8xf32, ["n", 8]>
  return %0 : tensor<?x8xf32, ["n", 8]>
}

// Constants are folded elsewhere; only shapes that vary need a broadcast.
// CHECK-LABEL: func.func @negative_fill_of_static_shape
func.func @negative_fill_of_static_shape() -> tensor<2x3xf32> {
  %shape = "stepwell.constant"() {value = dense<[2, 3]> : tensor<2xi64>} : () -> tensor<2xi64>
  // CHECK: stepwell.fill
  %0 = "stepwell.fill"(%shape) {value = dense<1.0> : tensor<f32>} : (tensor<2xi64>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @negative_slice_with_unknown_bounds
func.func @negative_slice_with_unknown_bounds(%x: tensor<4x6xf32>, %start: tensor<1xi64>) -> tensor<?x6xf32> {
  %end = "stepwell.constant"() {value = dense<3> : tensor<1xi64>} : () -> tensor<1xi64>
  // CHECK: stepwell.dynamic_slice
  %0 = "stepwell.dynamic_slice"(%x, %start, %end) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}
    : (tensor<4x6xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<?x6xf32>
  return %0 : tensor<?x6xf32>
}

// Absent axes would mean the first one.
// CHECK-LABEL: func.func @negative_slice_along_unknown_axis
func.func @negative_slice_along_unknown_axis(%x: tensor<4x6xf32>, %axis: tensor<1xi64>) -> tensor<2x6xf32> {
  %start = "stepwell.constant"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  %end = "stepwell.constant"() {value = dense<3> : tensor<1xi64>} : () -> tensor<1xi64>
  // CHECK: stepwell.dynamic_slice
  %0 = "stepwell.dynamic_slice"(%x, %start, %end, %axis) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>}
    : (tensor<4x6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// The last index is 5, of which -1 is another name; -9 is before the first one.
// CHECK-LABEL: func.func @slice_from_the_end
func.func @slice_from_the_end(%x: tensor<4x6xf32>) -> tensor<4x5xf32> {
  %start = "stepwell.constant"() {value = dense<-9> : tensor<1xi64>} : () -> tensor<1xi64>
  %end = "stepwell.constant"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %axis = "stepwell.constant"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  // CHECK: "stepwell.slice"(%{{.+}}) {starts = array<i64: 0, 0>, steps = array<i64: 1, 1>, stops = array<i64: 4, 5>}
  %0 = "stepwell.dynamic_slice"(%x, %start, %end, %axis) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>}
    : (tensor<4x6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// CHECK-LABEL: func.func @negative_pad_with_unknown_value
func.func @negative_pad_with_unknown_value(%x: tensor<4xf32>, %value: tensor<f32>) -> tensor<6xf32> {
  %pads = "stepwell.constant"() {value = dense<[1, 1]> : tensor<2xi64>} : () -> tensor<2xi64>
  // CHECK: stepwell.dynamic_pad
  %0 = "stepwell.dynamic_pad"(%x, %pads, %value) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<4xf32>, tensor<2xi64>, tensor<f32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// CHECK-LABEL: func.func @negative_pad_by_unknown_amounts
func.func @negative_pad_by_unknown_amounts(%x: tensor<4xf32>, %pads: tensor<2xi64>) -> tensor<?xf32> {
  // CHECK-NEXT: stepwell.dynamic_pad
  %0 = "stepwell.dynamic_pad"(%x, %pads) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (tensor<4xf32>, tensor<2xi64>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// The attribute of pad is a float of 64 bits, which would round the value.
// CHECK-LABEL: func.func @negative_pad_with_large_integer
func.func @negative_pad_with_large_integer(%x: tensor<4xi64>) -> tensor<6xi64> {
  %pads = "stepwell.constant"() {value = dense<[1, 1]> : tensor<2xi64>} : () -> tensor<2xi64>
  %value = "stepwell.constant"() {value = dense<9007199254740993> : tensor<i64>} : () -> tensor<i64>
  // CHECK: stepwell.dynamic_pad
  %0 = "stepwell.dynamic_pad"(%x, %pads, %value) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<4xi64>, tensor<2xi64>, tensor<i64>) -> tensor<6xi64>
  return %0 : tensor<6xi64>
}

// CHECK-LABEL: func.func @negative_resize_by_unknown_scales
func.func @negative_resize_by_unknown_scales(%x: tensor<1x2x4x4xf32>, %scales: tensor<4xf32>) -> tensor<?x?x?x?xf32> {
  // CHECK-NEXT: stepwell.dynamic_resize
  %0 = "stepwell.dynamic_resize"(%x, %scales) {operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<1x2x4x4xf32>, tensor<4xf32>) -> tensor<?x?x?x?xf32>
  return %0 : tensor<?x?x?x?xf32>
}
