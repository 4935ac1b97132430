// RUN: stepwell-opt %s --stepwell-infer-shapes --stepwell-fold-constants --stepwell-canonicalize --stepwell-bind-ranges --split-input-file | FileCheck %s

// A dimension that shrinks as the size grows has room for its greatest number of elements: 63 at n = 1.
// CHECK-LABEL: func.func @main
// CHECK:       "stepwell.exp"(%{{.+}}) : (tensor<63xf32>) -> tensor<63xf32>
module attributes {stepwell.ranges = {n = [1, 64, 1]}} {
  func.func @main(%x: tensor<?xf32> {stepwell.dims = ["n"]}, %table: tensor<64xf32>) -> tensor<?xf32> {
    %count = "stepwell.shape_of"(%x) : (tensor<?xf32>) -> tensor<1xi64>
    %all = "stepwell.constant"() {value = dense<64> : tensor<1xi64>} : () -> tensor<1xi64>
    %rest = "stepwell.sub"(%all, %count) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
    %zero = "stepwell.constant"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
    %one = "stepwell.constant"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
    %0 = "stepwell.dynamic_slice"(%table, %zero, %rest, %zero, %one) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (tensor<64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf32>
    %1 = "stepwell.exp"(%0) : (tensor<?xf32>) -> tensor<?xf32>
    return %1 : tensor<?xf32>
  }
}

// -----

// The room of n and 64 - n elements together is cut to the 64 that there are.
// CHECK-LABEL: func.func @main
// CHECK:       %[[BOTH:.+]] = "stepwell.append"({{.+}}) -> tensor<127xf32>
// CHECK:       %[[CUT:.+]] = "stepwell.slice"(%[[BOTH]]) {starts = array<i64: 0>, steps = array<i64: 1>, stops = array<i64: 64>}
// CHECK:       return %[[CUT]] : tensor<64xf32>
module attributes {stepwell.ranges = {n = [1, 64, 1]}} {
  func.func @main(%x: tensor<?xf32> {stepwell.dims = ["n"]}, %table: tensor<64xf32>) -> tensor<?xf32> {
    %count = "stepwell.shape_of"(%x) : (tensor<?xf32>) -> tensor<1xi64>
    %all = "stepwell.constant"() {value = dense<64> : tensor<1xi64>} : () -> tensor<1xi64>
    %rest = "stepwell.sub"(%all, %count) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
    %zero = "stepwell.constant"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
    %one = "stepwell.constant"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
    %0 = "stepwell.dynamic_slice"(%table, %zero, %rest, %zero, %one) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (tensor<64xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf32>
    %1 = "stepwell.concat"(%x, %0) {axis = 0 : i64} : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    return %1 : tensor<?xf32>
  }
}

// -----

// Padding up to a fixed size: at n = 64 there is none, so the room does not grow.
// CHECK-LABEL: func.func @main
// CHECK:       %[[KEPT:.+]] = "stepwell.mask"
// CHECK:       "stepwell.pad"(%[[KEPT]]) {high = array<i64: 0>, low = array<i64: 0>{{.*}}} : (tensor<64xf32>) -> tensor<64xf32>
module attributes {stepwell.ranges = {n = [1, 64, 1]}} {
  func.func @main(%x: tensor<?xf32> {stepwell.dims = ["n"]}) -> tensor<?xf32> {
    %count = "stepwell.shape_of"(%x) : (tensor<?xf32>) -> tensor<1xi64>
    %all = "stepwell.constant"() {value = dense<64> : tensor<1xi64>} : () -> tensor<1xi64>
    %rest = "stepwell.sub"(%all, %count) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
    %zero = "stepwell.constant"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
    %pads = "stepwell.concat"(%zero, %rest) {axis = 0 : i64} : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
    %exp = "stepwell.exp"(%x) : (tensor<?xf32>) -> tensor<?xf32>
    %0 = "stepwell.dynamic_pad"(%exp, %pads) {mode = "constant", operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (tensor<?xf32>, tensor<2xi64>) -> tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}

// -----

// Negative: of a dimension that grows with the size, nothing is cut.
// CHECK-LABEL: func.func @main
// CHECK:       "stepwell.append"({{.+}}) -> tensor<128xf32>
// CHECK-NOT:   "stepwell.slice"
module attributes {stepwell.ranges = {n = [1, 64, 1]}} {
  func.func @main(%x: tensor<?xf32> {stepwell.dims = ["n"]}) -> tensor<?xf32> {
    %1 = "stepwell.concat"(%x, %x) {axis = 0 : i64} : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    return %1 : tensor<?xf32>
  }
}
