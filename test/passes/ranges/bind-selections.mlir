// RUN: stepwell-opt %s --stepwell-infer-shapes --stepwell-bind-ranges --split-input-file | FileCheck %s

// Elements beyond the data are false.
// CHECK-LABEL: func.func @main
// CHECK:       %[[KEPT:.+]] = "stepwell.mask"(%{{.+}}, %{{.+}}) {extent = {{.+}}, otherwise = 0.000000e+00 : f64} : (tensor<64x3xi1>
// CHECK:       "stepwell.nonzero"(%[[KEPT]]) : (tensor<64x3xi1>) -> tensor<2x192xi64>
module attributes {stepwell.ranges = {n = [1, 64, 1]}} {
  func.func @main(%x: tensor<?x3xi1> {stepwell.dims = ["n", 3]}) -> tensor<2x?xi64> {
    %0 = "stepwell.nonzero"(%x) : (tensor<?x3xi1>) -> tensor<2x?xi64>
    return %0 : tensor<2x?xi64>
  }
}

// -----

// Negative: nothing is masked if no dimension varies.
// CHECK-LABEL: func.func @main
// CHECK-NOT:   stepwell.mask
// CHECK:       "stepwell.nonzero"
module attributes {stepwell.ranges = {n = [1, 64, 1]}} {
  func.func @main(%x: tensor<4x3xi1>, %y: tensor<?xf32> {stepwell.dims = ["n"]}) -> (tensor<2x12xi64>, tensor<?xf32>) {
    %0 = "stepwell.nonzero"(%x) : (tensor<4x3xi1>) -> tensor<2x12xi64>
    return %0, %y : tensor<2x12xi64>, tensor<?xf32>
  }
}

// -----

// Boxes beyond the data have the least score, which exceeds no bound.
// CHECK-LABEL: func.func @main
// CHECK:       %[[SCORES:.+]] = "stepwell.mask"({{.+}}) {extent = {{.+}}, otherwise = 0xFFF0000000000000 : f64} : (tensor<1x2x50xf32>
// CHECK:       "stepwell.suppress"(%{{.+}}, %[[SCORES]], %{{.+}}) {{.+}} -> tensor<1x2x11xi64>
// CHECK-NEXT:  return
module attributes {stepwell.ranges = {n = [1, 50, 1]}} {
  func.func @main(%b: tensor<1x?x4xf32> {stepwell.dims = [1, "n", 4]}, %s: tensor<1x2x?xf32> {stepwell.dims = [1, 2, "n"]}, %least: tensor<f32>) -> tensor<1x2x11xi64> {
    %0 = "stepwell.suppress"(%b, %s, %least) {most = 10 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1>} : (tensor<1x?x4xf32>, tensor<1x2x?xf32>, tensor<f32>) -> tensor<1x2x11xi64>
    return %0 : tensor<1x2x11xi64>
  }
}

// -----

// Without a bound, boxes beyond the data are the last ones, and are not counted.
// CHECK-LABEL: func.func @main
// CHECK:       %[[ALL:.+]] = "stepwell.suppress"
// CHECK:       %[[NUMBERS:.+]] = "stepwell.slice"(%[[ALL]])
// CHECK:       %[[FEWER:.+]] = "stepwell.reduce_sum"
// CHECK:       "stepwell.concat"(%[[NUMBERS]], %[[FEWER]]) {axis = 2 : i64}
module attributes {stepwell.ranges = {n = [1, 50, 1]}} {
  func.func @main(%b: tensor<1x?x4xf32> {stepwell.dims = [1, "n", 4]}, %s: tensor<1x2x?xf32> {stepwell.dims = [1, 2, "n"]}) -> tensor<1x2x11xi64> {
    %0 = "stepwell.suppress"(%b, %s) {most = 10 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<1x?x4xf32>, tensor<1x2x?xf32>) -> tensor<1x2x11xi64>
    return %0 : tensor<1x2x11xi64>
  }
}

// -----

// Rows beyond the data are sorted behind all others, by a column in front.
// CHECK-LABEL: func.func @main
// CHECK:       %[[KEYS:.+]] = "stepwell.concat"(%{{.+}}, %arg0) {axis = 1 : i64} : (tensor<9x1xf32>, tensor<9x4xf32>)
// CHECK:       %[[ORDER:.+]] = "stepwell.sort_rows"(%[[KEYS]])
// CHECK:       %[[ALL:.+]] = "stepwell.select"(%{{.+}}, %[[ORDER]], %{{.+}})
// CHECK:       %[[GROUPS:.+]] = "stepwell.number_groups"(%arg0, %[[ALL]])
// CHECK:       %[[COUNTED:.+]] = "stepwell.mask"(%[[GROUPS]], %{{.+}}) {{.*}}otherwise = -1.000000e+00
// CHECK:       "stepwell.summarize_groups"(%[[COUNTED]])
module attributes {stepwell.ranges = {n = [1, 9, 1]}} {
  func.func @main(%x: tensor<?x4xf32> {stepwell.dims = ["n", 4]}) -> tensor<?xi64> {
    %0 = "stepwell.sort_rows"(%x) : (tensor<?x4xf32>) -> tensor<?xi64>
    %1 = "stepwell.number_groups"(%x, %0) {is_sorted = true} : (tensor<?x4xf32>, tensor<?xi64>) -> tensor<?xi64>
    %2 = "stepwell.summarize_groups"(%1) {fact = "size"} : (tensor<?xi64>) -> tensor<?xi64>
    return %2 : tensor<?xi64>
  }
}
