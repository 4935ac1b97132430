// RUN: stepwell-opt %s --split-input-file --stepwell-bind-ranges | FileCheck %s

// The caller fills the padding of a mask with false. Attention still gets the mask op, which tells how many keys there
// are: rows of a pool behind them are those of other texts, or of none.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %[[SEEN:[a-z0-9]+]]: tensor<1x1x1x8xi1>
// CHECK:         %[[MASK:.+]] = "stepwell.mask"(%[[SEEN]], %{{.+}}) {extent = 0 : i64, otherwise = 0.000000e+00 : f64} : (tensor<1x1x1x8xi1>, tensor<8xi1>)
// CHECK:         "stepwell.paged_attention"(%{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}, %[[MASK]])
module attributes {stepwell.ranges = {n = [1, 8, 1]}} {
  func.func @main(%q: tensor<1x4x1x8xf32>, %k: tensor<2x16x8xf32>, %v: tensor<2x16x8xf32>, %pages: tensor<1x3xi64>, %starts: tensor<1xi64>, %seen: tensor<1x1x1x?xi1, [1, 1, 1, "n"]>) -> tensor<1x4x1x8xf32> {
    %0 = "stepwell.paged_attention"(%q, %k, %v, %pages, %starts, %seen) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>, page_size = 4 : i64, scale = 1.0 : f64}
      : (tensor<1x4x1x8xf32>, tensor<2x16x8xf32>, tensor<2x16x8xf32>, tensor<1x3xi64>, tensor<1xi64>, tensor<1x1x1x?xi1, [1, 1, 1, "n"]>) -> tensor<1x4x1x8xf32>
    return %0 : tensor<1x4x1x8xf32>
  }
}

// -----

// The same number of keys in each call.
// CHECK-LABEL: func.func @main(
// CHECK-NOT:     "stepwell.mask"
// CHECK:         "stepwell.paged_attention"
// CHECK-NOT:     "stepwell.mask"
module attributes {stepwell.ranges = {n = [1, 8, 1]}} {
  func.func @main(%q: tensor<?x4x1x8xf32, ["n", 4, 1, 8]>, %k: tensor<2x16x8xf32>, %v: tensor<2x16x8xf32>, %pages: tensor<?x3xi64, ["n", 3]>, %starts: tensor<?xi64, ["n"]>, %negative_seen: tensor<1x1x1x8xi1>) -> tensor<?x4x1x8xf32, ["n", 4, 1, 8]> {
    %0 = "stepwell.paged_attention"(%q, %k, %v, %pages, %starts, %negative_seen) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>, page_size = 4 : i64, scale = 1.0 : f64}
      : (tensor<?x4x1x8xf32, ["n", 4, 1, 8]>, tensor<2x16x8xf32>, tensor<2x16x8xf32>, tensor<?x3xi64, ["n", 3]>, tensor<?xi64, ["n"]>, tensor<1x1x1x8xi1>) -> tensor<?x4x1x8xf32, ["n", 4, 1, 8]>
    return %0 : tensor<?x4x1x8xf32, ["n", 4, 1, 8]>
  }
}
