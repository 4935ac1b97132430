// RUN: stepwell-opt %s --stepwell-infer-shapes --stepwell-fold-constants --stepwell-canonicalize --stepwell-bind-ranges --split-input-file | FileCheck %s

// A sum reads zeros beyond the data.
// CHECK: stepwell.table = ["\22n\22"]
// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%[[X:.+]]: tensor<64x8xf32> {{.+}}, %{{.+}}: tensor<256xi64> {stepwell.name = "stepwell.table"})
// CHECK:       %[[KEPT:.+]] = "stepwell.mask"(%[[X]], %{{.+}}) {extent = 0 : i64, otherwise = 0.000000e+00 : f64}
// CHECK:       "stepwell.reduce_sum"(%[[KEPT]])
module attributes {stepwell.ranges = {n = [1, 64, 1]}} {
  func.func @main(%x: tensor<?x8xf32> {stepwell.dims = ["n", 8]}) -> tensor<?xf32> {
    %0 = "stepwell.reduce_sum"(%x) {axes = array<i64: 0>, keepdims = false} : (tensor<?x8xf32>) -> tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}

// -----

// A norm over neighbouring channels reads 0 beyond the data, along whichever dimension the channels lie.
// CHECK-LABEL: func.func @main
// CHECK:       %[[KEPT:.+]] = "stepwell.mask"(%{{.+}}, %{{.+}}) {{.+}} (tensor<2x4x8xf32>, tensor<8xf32>)
// CHECK:       "stepwell.local_response_norm"(%[[KEPT]])
module attributes {stepwell.ranges = {n = [1, 8, 1]}} {
  func.func @main(%x: tensor<2x4x?xf32> {stepwell.dims = [2, 4, "n"]}) -> tensor<2x4x?xf32> {
    %0 = "stepwell.exp"(%x) : (tensor<2x4x?xf32>) -> tensor<2x4x?xf32>
    %1 = "stepwell.local_response_norm"(%0) {layout = "channels_last", size = 3 : i64} : (tensor<2x4x?xf32>) -> tensor<2x4x?xf32>
    return %1 : tensor<2x4x?xf32>
  }
}

// -----

// A softmax along a static dimension reads no padding.
// CHECK-LABEL: func.func @main
// CHECK-NOT:   stepwell.mask
// CHECK:       "stepwell.softmax"(%{{.+}}) {axis = 1 : i64} : (tensor<64x8xf32>) -> tensor<64x8xf32>
module attributes {stepwell.ranges = {n = [1, 64, 1]}} {
  func.func @main(%x: tensor<?x8xf32> {stepwell.dims = ["n", 8]}) -> tensor<?x8xf32> {
    %0 = "stepwell.softmax"(%x) {axis = 1 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
    return %0 : tensor<?x8xf32>
  }
}

// -----

// Numbers that a model computes of shapes are read from the table.
// CHECK: stepwell.table = ["[\22floordiv\22, \22n\22, 2]"
// CHECK-LABEL: func.func @main
// CHECK-SAME:  %[[TABLE:[a-z0-9]+]]: tensor<256xi64>
// CHECK:       %[[HALF:.+]] = "stepwell.gather"(%[[TABLE]], %{{.+}}) {axis = 0 : i64} : (tensor<256xi64>, tensor<i64>) -> tensor<i64>
// CHECK:       "stepwell.cast"(%[[HALF]]) {dtype = f32}
module attributes {stepwell.ranges = {n = [1, 64, 1]}} {
  func.func @main(%x: tensor<?xf32> {stepwell.dims = ["n"]}) -> tensor<?xf32> {
    %count = "stepwell.size_of"(%x) : (tensor<?xf32>) -> tensor<i64>
    %two = "stepwell.constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
    %half = "stepwell.div"(%count, %two) : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %0 = "stepwell.cast"(%half) {dtype = f32} : (tensor<i64>) -> tensor<f32>
    %1 = "stepwell.mul"(%x, %0) : (tensor<?xf32>, tensor<f32>) -> tensor<?xf32>
    return %1 : tensor<?xf32>
  }
}

// -----

// In units of the step, half of a size and twice a quarter of it are the same extent.
// CHECK-LABEL: func.func @main
// CHECK:       "stepwell.add"(%{{.+}}, %{{.+}}) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
module attributes {stepwell.ranges = {n = [32, 128, 32]}} {
  func.func @main(%x: tensor<1x1x?xf32> {stepwell.dims = [1, 1, "n"]}) -> tensor<?xf32> {
    %0 = "stepwell.max_pool"(%x) {kernel = array<i64: 2>, strides = array<i64: 2>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, ceil_mode = false} : (tensor<1x1x?xf32>) -> tensor<1x1x?xf32>
    %1 = "stepwell.max_pool"(%0) {kernel = array<i64: 2>, strides = array<i64: 2>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, ceil_mode = false} : (tensor<1x1x?xf32>) -> tensor<1x1x?xf32>
    %2 = "stepwell.concat"(%1, %1) {axis = 2 : i64} : (tensor<1x1x?xf32>, tensor<1x1x?xf32>) -> tensor<1x1x?xf32>
    %3 = "stepwell.squeeze"(%0) {axes = array<i64: 0, 1>} : (tensor<1x1x?xf32>) -> tensor<?xf32>
    %4 = "stepwell.squeeze"(%2) {axes = array<i64: 0, 1>} : (tensor<1x1x?xf32>) -> tensor<?xf32>
    %5 = "stepwell.add"(%3, %4) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    return %5 : tensor<?xf32>
  }
}

// -----

// A slice that is inside of the data at all sizes, though not at their numbers of steps.
// CHECK-LABEL: func.func @main
// CHECK:       "stepwell.slice"(%{{.+}}) {starts = array<i64: 8>, steps = array<i64: 1>, stops = array<i64: 9>} : (tensor<13xf32>) -> tensor<1xf32>
module attributes {stepwell.ranges = {n = [9, 13, 4]}} {
  func.func @main(%x: tensor<?xf32> {stepwell.dims = ["n"]}) -> tensor<1xf32> {
    %0 = "stepwell.slice"(%x) {starts = array<i64: 8>, steps = array<i64: 1>, stops = array<i64: 9>} : (tensor<?xf32>) -> tensor<1xf32>
    return %0 : tensor<1xf32>
  }
}

// -----

// A product in blocks reads 0 beyond the data.
// CHECK-LABEL: func.func @main
// CHECK:       %[[KEPT:.+]] = "stepwell.mask"(%{{.+}}, %{{.+}}) {extent = 0 : i64, otherwise = 0.000000e+00 : f64}
// CHECK:       "stepwell.block_matmul"(%[[KEPT]], %{{.+}}, %{{.+}}) {bits = 4 : i64}
module attributes {stepwell.ranges = {n = [33, 64, 1]}} {
  func.func @main(%x: tensor<2x?xf32> {stepwell.dims = [2, "n"]}, %w: tensor<8x2x16xui8>, %s: tensor<8x2xf32>) -> tensor<2x8xf32> {
    %0 = "stepwell.exp"(%x) : (tensor<2x?xf32>) -> tensor<2x?xf32>
    %1 = "stepwell.block_matmul"(%0, %w, %s) {bits = 4 : i64} : (tensor<2x?xf32>, tensor<8x2x16xui8>, tensor<8x2xf32>) -> tensor<2x8xf32>
    return %1 : tensor<2x8xf32>
  }
}

// -----

// So do the input and the weight of a convolution over channels whose number varies.
// CHECK-LABEL: func.func @main
// CHECK-DAG:   %[[X:.+]] = "stepwell.mask"(%{{.+}}, %{{.+}}) {{.+}} -> tensor<1x64x5xf32>
// CHECK-DAG:   %[[W:.+]] = "stepwell.mask"(%{{.+}}, %{{.+}}) {{.+}} -> tensor<4x64x1xf32>
// CHECK:       "stepwell.conv"(%[[X]], %[[W]])
module attributes {stepwell.ranges = {n = [1, 64, 1]}} {
  func.func @main(%x: tensor<1x?x5xf32> {stepwell.dims = [1, "n", 5]}, %w: tensor<4x?x1xf32> {stepwell.dims = [4, "n", 1]}) -> tensor<1x4x5xf32> {
    %0 = "stepwell.exp"(%x) : (tensor<1x?x5xf32>) -> tensor<1x?x5xf32>
    %1 = "stepwell.exp"(%w) : (tensor<4x?x1xf32>) -> tensor<4x?x1xf32>
    %2 = "stepwell.conv"(%0, %1) {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>} : (tensor<1x?x5xf32>, tensor<4x?x1xf32>) -> tensor<1x4x5xf32>
    return %2 : tensor<1x4x5xf32>
  }
}

// -----

// The sum of a mean of integers has 64 bits.
// CHECK-LABEL: func.func @main
// CHECK:       %[[WIDE:.+]] = "stepwell.cast"(%arg0) {dtype = ui64}
// CHECK:       %[[KEPT:.+]] = "stepwell.mask"(%[[WIDE]],
// CHECK:       %[[SUM:.+]] = "stepwell.reduce_sum"(%[[KEPT]])
// CHECK:       %[[MEAN:.+]] = "stepwell.div"(%[[SUM]], %{{.+}}) : (tensor<ui64>, tensor<ui64>)
// CHECK:       "stepwell.cast"(%[[MEAN]]) {dtype = ui8}
module attributes {stepwell.ranges = {n = [1, 64, 1]}} {
  func.func @main(%x: tensor<?xui8> {stepwell.dims = ["n"]}) -> tensor<ui8> {
    %0 = "stepwell.reduce_mean"(%x) {axes = array<i64: 0>, keepdims = false} : (tensor<?xui8>) -> tensor<ui8>
    return %0 : tensor<ui8>
  }
}

// -----

// Keys, values and mask are padded to a multiple of four, so that loops over keys can end early.
// CHECK-LABEL: func.func @main
// CHECK:       "stepwell.pad"(%{{.+}}) {high = array<i64: 0, 0, 3, 0>, low = array<i64: 0, 0, 0, 0>} : (tensor<1x2x45x8xf32>) -> tensor<1x2x48x8xf32>
// CHECK:       "stepwell.pad"(%{{.+}}) {high = array<i64: 0, 3>, low = array<i64: 0, 0>} : (tensor<8x45xf32>) -> tensor<8x48xf32>
// CHECK:       "stepwell.attention"(%{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}) {{.+}} tensor<8x48xf32>) -> tensor<1x2x8x8xf32>
module attributes {stepwell.ranges = {n = [1, 45, 1]}} {
  func.func @main(%q: tensor<1x2x8x8xf32>, %k: tensor<1x2x?x8xf32> {stepwell.dims = [1, 2, "n", 8]},
                  %m: tensor<8x?xf32> {stepwell.dims = [8, "n"]}) -> tensor<1x2x8x8xf32> {
    %0 = "stepwell.attention"(%q, %k, %k, %m) {scale = 1.0 : f64}
      : (tensor<1x2x8x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>, tensor<8x?xf32>) -> tensor<1x2x8x8xf32>
    return %0 : tensor<1x2x8x8xf32>
  }
}

// -----

// Few queries read their keys one by one: nothing is padded.
// CHECK-LABEL: func.func @main
// CHECK-NOT:   "stepwell.pad"
// CHECK:       return
module attributes {stepwell.ranges = {n = [1, 45, 1]}} {
  func.func @main(%q: tensor<1x2x1x8xf32>, %k: tensor<1x2x?x8xf32> {stepwell.dims = [1, 2, "n", 8]}) -> tensor<1x2x1x8xf32> {
    %0 = "stepwell.attention"(%q, %k, %k) {scale = 1.0 : f64}
      : (tensor<1x2x1x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>) -> tensor<1x2x1x8xf32>
    return %0 : tensor<1x2x1x8xf32>
  }
}

// -----

// The data of a square image with equal sides, in one dimension: elements are counted along both sides.
// CHECK-LABEL: func.func @main
// CHECK:       "stepwell.mod"
// CHECK:       "stepwell.div"
// CHECK:       "stepwell.gather"
module attributes {stepwell.ranges = {n = [1, 8, 1]}} {
  func.func @main(%x: tensor<1x2x?x?xf32> {stepwell.dims = [1, 2, "n", "n"]}) -> tensor<1x3x?xf32> {
    %0 = "stepwell.parameter"() {dtype = f32, name = "w", shape = array<i64: 3, 2, 1, 1>} : () -> tensor<3x2x1x1xf32>
    %1 = "stepwell.conv"(%x, %0) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x2x?x?xf32>, tensor<3x2x1x1xf32>) -> tensor<1x3x?x?xf32>
    %2 = "stepwell.reshape"(%1) {shape = [1, 3, "n * n"]} : (tensor<1x3x?x?xf32>) -> tensor<1x3x?xf32>
    return %2 : tensor<1x3x?xf32>
  }
}

// -----

// A module without ranges stays as it is.
// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%{{.+}}: tensor<?x8xf32, ["n", 8]> {stepwell.dims = ["n", 8]})
// CHECK-NOT:   stepwell.table
func.func @main(%x: tensor<?x8xf32> {stepwell.dims = ["n", 8]}) -> tensor<?x8xf32> {
  %0 = "stepwell.relu"(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
