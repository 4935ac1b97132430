// RUN: stepwell-opt %s --stepwell-infer-shapes --split-input-file | FileCheck %s

// The contents of shape tensors are expressions over the sizes of the inputs.
// CHECK-LABEL: func.func @reshape
// CHECK:         stepwell.dynamic_reshape
// CHECK-SAME:    xf32, ["n", 32]>
func.func @reshape(%x: tensor<?x8x4xf32> {stepwell.dims = ["n", 8, 4]}) -> tensor<?x?xf32> {
  %0 = "stepwell.shape_of"(%x) : (tensor<?x8x4xf32>) -> tensor<3xi64>
  %first = "stepwell.constant"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %rest = "stepwell.constant"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %1 = "stepwell.gather"(%0, %first) {axis = 0 : i64} : (tensor<3xi64>, tensor<1xi64>) -> tensor<1xi64>
  %2 = "stepwell.concat"(%1, %rest) {axis = 0 : i64} : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %3 = "stepwell.dynamic_reshape"(%x, %2) {allow_zero = false} : (tensor<?x8x4xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  return %3 : tensor<?x?xf32>
}

// -----

// CHECK-LABEL: func.func @arithmetic
// CHECK:         stepwell.fill
// CHECK-SAME:    xf32, ["(n + 1) // 2", "m * n", "min(7, n)"]>
func.func @arithmetic(%x: tensor<?x?xf32> {stepwell.dims = ["n", "m"]}) -> tensor<?x?x?xf32> {
  %shape = "stepwell.shape_of"(%x) : (tensor<?x?xf32>) -> tensor<2xi64>
  %count = "stepwell.size_of"(%x) : (tensor<?x?xf32>) -> tensor<i64>
  %first = "stepwell.constant"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %one = "stepwell.constant"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  %two = "stepwell.constant"() {value = dense<2> : tensor<1xi64>} : () -> tensor<1xi64>
  %seven = "stepwell.constant"() {value = dense<7> : tensor<1xi64>} : () -> tensor<1xi64>
  %n = "stepwell.gather"(%shape, %first) {axis = 0 : i64} : (tensor<2xi64>, tensor<1xi64>) -> tensor<1xi64>
  %0 = "stepwell.add"(%n, %one) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  %half = "stepwell.div"(%0, %two) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  %all = "stepwell.expand_dims"(%count) {axes = array<i64: 0>} : (tensor<i64>) -> tensor<1xi64>
  %least = "stepwell.minimum"(%n, %seven) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  %1 = "stepwell.concat"(%half, %all) {axis = 0 : i64} : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %2 = "stepwell.concat"(%1, %least) {axis = 0 : i64} : (tensor<2xi64>, tensor<1xi64>) -> tensor<3xi64>
  %3 = "stepwell.fill"(%2) {value = dense<0.0> : tensor<f32>} : (tensor<3xi64>) -> tensor<?x?x?xf32>
  return %3 : tensor<?x?x?xf32>
}

// -----

// Exporters write Expand with -1 for extents that stay: no size equals -1.
// CHECK-LABEL: func.func @expand
// CHECK:         stepwell.fill
// CHECK-SAME:    xf32, ["n", 8]>
func.func @expand(%x: tensor<?x8xf32> {stepwell.dims = ["n", 8]}) -> tensor<?x?xf32> {
  %shape = "stepwell.shape_of"(%x) : (tensor<?x8xf32>) -> tensor<2xi64>
  %keep = "stepwell.constant"() {value = dense<-1> : tensor<2xi64>} : () -> tensor<2xi64>
  %ones = "stepwell.constant"() {value = dense<1> : tensor<2xi64>} : () -> tensor<2xi64>
  %is_kept = "stepwell.equal"(%shape, %keep) : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
  %0 = "stepwell.select"(%is_kept, %ones, %shape) : (tensor<2xi1>, tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  %1 = "stepwell.fill"(%0) {value = dense<0.0> : tensor<f32>} : (tensor<2xi64>) -> tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}

// -----

// Which of two sizes is greater is known in a call only.
// CHECK-LABEL: func.func @negative_comparison
// CHECK:         stepwell.fill
// CHECK-SAME:    -> tensor<?xf32>
func.func @negative_comparison(%x: tensor<?x?xf32> {stepwell.dims = ["n", "m"]}) -> tensor<?xf32> {
  %shape = "stepwell.shape_of"(%x) : (tensor<?x?xf32>) -> tensor<2xi64>
  %first = "stepwell.constant"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %second = "stepwell.constant"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  %n = "stepwell.gather"(%shape, %first) {axis = 0 : i64} : (tensor<2xi64>, tensor<1xi64>) -> tensor<1xi64>
  %m = "stepwell.gather"(%shape, %second) {axis = 0 : i64} : (tensor<2xi64>, tensor<1xi64>) -> tensor<1xi64>
  %is_less = "stepwell.less"(%n, %m) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi1>
  %0 = "stepwell.select"(%is_less, %n, %first) : (tensor<1xi1>, tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  %1 = "stepwell.fill"(%0) {value = dense<0.0> : tensor<f32>} : (tensor<1xi64>) -> tensor<?xf32>
  return %1 : tensor<?xf32>
}

// -----

// In floating point, contents are ratios: the next multiple of 3, and the numbers below a half of n.
// CHECK-LABEL: func.func @ratios
// CHECK:         stepwell.fill
// CHECK-SAME:    xf32, ["3 * ((n + 2) // 3)"]>
// CHECK:         stepwell.range
// CHECK-SAME:    xf32, ["(n + 1) // 2"]>
module attributes {stepwell.ranges = {n = [1, 64, 1]}} {
func.func @ratios(%x: tensor<?x8xf32> {stepwell.dims = ["n", 8]}) -> (tensor<?xf32>, tensor<?xf32>) {
  %zero = "stepwell.constant"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %three = "stepwell.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %half = "stepwell.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %none = "stepwell.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %one = "stepwell.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %shape = "stepwell.shape_of"(%x) : (tensor<?x8xf32>) -> tensor<2xi64>
  %n = "stepwell.gather"(%shape, %zero) {axis = 0 : i64} : (tensor<2xi64>, tensor<1xi64>) -> tensor<1xi64>
  %0 = "stepwell.cast"(%n) {dtype = f32} : (tensor<1xi64>) -> tensor<1xf32>
  %1 = "stepwell.div"(%0, %three) : (tensor<1xf32>, tensor<f32>) -> tensor<1xf32>
  %2 = "stepwell.ceil"(%1) : (tensor<1xf32>) -> tensor<1xf32>
  %3 = "stepwell.mul"(%2, %three) : (tensor<1xf32>, tensor<f32>) -> tensor<1xf32>
  %4 = "stepwell.cast"(%3) {dtype = i64} : (tensor<1xf32>) -> tensor<1xi64>
  %5 = "stepwell.fill"(%4) {value = dense<0.0> : tensor<f32>} : (tensor<1xi64>) -> tensor<?xf32>
  %6 = "stepwell.squeeze"(%0) {axes = array<i64: 0>} : (tensor<1xf32>) -> tensor<f32>
  %7 = "stepwell.mul"(%6, %half) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %8 = "stepwell.range"(%none, %7, %one) : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<?xf32>
  return %5, %8 : tensor<?xf32>, tensor<?xf32>
}
}

// -----

// Without a limit of n, it may have more digits than a float holds.
// CHECK-LABEL: func.func @negative_digits
// CHECK:         stepwell.fill
// CHECK-SAME:    tensor<?xf32>{{$}}
func.func @negative_digits(%x: tensor<?x8xf32> {stepwell.dims = ["n", 8]}) -> tensor<?xf32> {
  %zero = "stepwell.constant"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %half = "stepwell.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %shape = "stepwell.shape_of"(%x) : (tensor<?x8xf32>) -> tensor<2xi64>
  %n = "stepwell.gather"(%shape, %zero) {axis = 0 : i64} : (tensor<2xi64>, tensor<1xi64>) -> tensor<1xi64>
  %0 = "stepwell.cast"(%n) {dtype = f32} : (tensor<1xi64>) -> tensor<1xf32>
  %1 = "stepwell.mul"(%0, %half) : (tensor<1xf32>, tensor<f32>) -> tensor<1xf32>
  %2 = "stepwell.floor"(%1) : (tensor<1xf32>) -> tensor<1xf32>
  %3 = "stepwell.cast"(%2) {dtype = i64} : (tensor<1xf32>) -> tensor<1xi64>
  %4 = "stepwell.fill"(%3) {value = dense<0.0> : tensor<f32>} : (tensor<1xi64>) -> tensor<?xf32>
  return %4 : tensor<?xf32>
}
