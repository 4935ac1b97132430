// RUN: stepwell-opt %s --stepwell-join-columns --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @norm
// CHECK-SAME: (%[[X:.+]]: tensor<1x24x32xf32>, %[[M:.+]]: tensor<1x1x8x1xf32>)
// CHECK: %[[REPEATED:.+]] = "stepwell.broadcast_to"(%[[M]]) {shape = array<i64: 1, 1, 8, 4>}
// CHECK: %[[ROW:.+]] = "stepwell.reshape"(%[[REPEATED]]) {shape = array<i64: 1, 1, 32>}
// CHECK: %[[AROUND:.+]] = "stepwell.sub"(%[[X]], %[[ROW]]) {{.*}} -> tensor<1x24x32xf32>
// CHECK: %[[SUM:.+]] = "stepwell.reduce_sum"(%[[AROUND]]) {axes = array<i64: 1>, keepdims = true}
// CHECK: %[[PARTS:.+]] = "stepwell.reshape"(%[[SUM]]) {shape = array<i64: 1, 1, 8, 4>}
// CHECK: "stepwell.reduce_sum"(%[[PARTS]]) {axes = array<i64: 3>, keepdims = true}
module attributes {stepwell.ranges = {n = [1, 24, 1]}} {
  func.func @norm(%x: tensor<1x24x32xf32>, %m: tensor<1x1x8x1xf32>) -> tensor<1x1x8x1xf32> {
    %0 = "stepwell.reshape"(%x) {shape = array<i64: 1, 24, 8, 4>} : (tensor<1x24x32xf32>) -> tensor<1x24x8x4xf32>
    %1 = "stepwell.sub"(%0, %m) : (tensor<1x24x8x4xf32>, tensor<1x1x8x1xf32>) -> tensor<1x24x8x4xf32>
    %2 = "stepwell.reduce_sum"(%1) {axes = array<i64: 1, 3>, keepdims = true}
      : (tensor<1x24x8x4xf32>) -> tensor<1x1x8x1xf32>
    return %2 : tensor<1x1x8x1xf32>
  }
}

// -----

// A mask of rows has one element per row.
// CHECK-LABEL: func.func @mask
// CHECK: %[[MASK:.+]] = "stepwell.reshape"(%{{.+}}) {shape = array<i64: 1, 24, 1>}
// CHECK: "stepwell.mask"(%{{.+}}, %[[MASK]])
// CHECK-SAME: -> tensor<1x24x32xf32>
module attributes {stepwell.ranges = {n = [1, 24, 1]}} {
  func.func @mask(%x: tensor<1x24x32xf32>, %m: tensor<1x24x1x1xf32>) -> tensor<1x24x8x4xf32> {
    %0 = "stepwell.reshape"(%x) {shape = array<i64: 1, 24, 8, 4>} : (tensor<1x24x32xf32>) -> tensor<1x24x8x4xf32>
    %1 = "stepwell.mask"(%0, %m) {extent = 0 : i64, otherwise = 0.0 : f64}
      : (tensor<1x24x8x4xf32>, tensor<1x24x1x1xf32>) -> tensor<1x24x8x4xf32>
    return %1 : tensor<1x24x8x4xf32>
  }
}

// -----

// Groups whose columns fill vectors stay, and so do reductions over groups.
// CHECK-LABEL: func.func @negative_wide
// CHECK: "stepwell.reduce_sum"(%{{.+}}) {axes = array<i64: 1, 3>
// CHECK-LABEL: func.func @negative_groups
// CHECK: "stepwell.reduce_sum"(%{{.+}}) {axes = array<i64: 2, 3>
// CHECK-LABEL: func.func @negative_large
// CHECK: "stepwell.mul"(%{{.+}}, %{{.+}}) {{.*}} -> tensor<1x24x8x4xf32>
module attributes {stepwell.ranges = {n = [1, 24, 1]}} {
  func.func @negative_wide(%x: tensor<1x24x128xf32>) -> tensor<1x1x8x1xf32> {
    %0 = "stepwell.reshape"(%x) {shape = array<i64: 1, 24, 8, 16>} : (tensor<1x24x128xf32>) -> tensor<1x24x8x16xf32>
    %1 = "stepwell.reduce_sum"(%0) {axes = array<i64: 1, 3>, keepdims = true}
      : (tensor<1x24x8x16xf32>) -> tensor<1x1x8x1xf32>
    return %1 : tensor<1x1x8x1xf32>
  }
  func.func @negative_groups(%x: tensor<1x24x32xf32>) -> tensor<1x24x1x1xf32> {
    %0 = "stepwell.reshape"(%x) {shape = array<i64: 1, 24, 8, 4>} : (tensor<1x24x32xf32>) -> tensor<1x24x8x4xf32>
    %1 = "stepwell.reduce_sum"(%0) {axes = array<i64: 2, 3>, keepdims = true}
      : (tensor<1x24x8x4xf32>) -> tensor<1x24x1x1xf32>
    return %1 : tensor<1x24x1x1xf32>
  }
  func.func @negative_large(%x: tensor<1x24x32xf32>, %y: tensor<1x24x8x4xf32>) -> tensor<1x24x8x4xf32> {
    %0 = "stepwell.reshape"(%x) {shape = array<i64: 1, 24, 8, 4>} : (tensor<1x24x32xf32>) -> tensor<1x24x8x4xf32>
    %1 = "stepwell.mul"(%0, %y) : (tensor<1x24x8x4xf32>, tensor<1x24x8x4xf32>) -> tensor<1x24x8x4xf32>
    return %1 : tensor<1x24x8x4xf32>
  }
}
