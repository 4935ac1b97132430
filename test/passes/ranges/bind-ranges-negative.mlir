// RUN: not stepwell-opt %s --stepwell-infer-shapes --stepwell-bind-ranges --split-input-file 2>&1 | FileCheck %s

// CHECK: 'stepwell.add' op: requires equal dimensions, but m and n elements differ at some sizes; if they are always equal, declare it in `dims` (n=m)
module attributes {stepwell.ranges = {n = [1, 64, 1], m = [1, 64, 1]}} {
  func.func @main(%x: tensor<?xf32> {stepwell.dims = ["n"]}, %y: tensor<?xf32> {stepwell.dims = ["m"]}) -> tensor<?xf32> {
    %0 = "stepwell.add"(%x, %y) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}

// -----

// CHECK: 'stepwell.add' op: requires equal dimensions, but n and 8 elements differ
module attributes {stepwell.ranges = {n = [1, 64, 1]}} {
  func.func @main(%x: tensor<?xf32> {stepwell.dims = ["n"]}, %y: tensor<8xf32>) -> tensor<?xf32> {
    %0 = "stepwell.add"(%x, %y) : (tensor<?xf32>, tensor<8xf32>) -> tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}

// -----

// CHECK: 'stepwell.fill' op: the size of its result does not follow from the inputs
module attributes {stepwell.ranges = {n = [1, 64, 1]}} {
  func.func @main(%x: tensor<?xf32> {stepwell.dims = ["n"]}, %shape: tensor<1xi64>) -> tensor<?xf32> {
    %0 = "stepwell.fill"(%shape) {value = dense<0.0> : tensor<f32>} : (tensor<1xi64>) -> tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}

// -----

// CHECK: 'stepwell.conv' op: the number of channels of a group varies
module attributes {stepwell.ranges = {n = [2, 6, 2]}} {
  func.func @main(%x: tensor<1x4x5xf32>, %w: tensor<?x2x1xf32> {stepwell.dims = ["n", 2, 1]}) -> tensor<1x?x5xf32> {
    %0 = "stepwell.conv"(%x, %w) {group = 2 : i64, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>} : (tensor<1x4x5xf32>, tensor<?x2x1xf32>) -> tensor<1x?x5xf32>
    return %0 : tensor<1x?x5xf32>
  }
}

// -----

// CHECK: dimension 0 of input 0 has no range: name it in `stepwell.dims`
module attributes {stepwell.ranges = {n = [1, 64, 1]}} {
  func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
    %0 = "stepwell.relu"(%x) : (tensor<?xf32>) -> tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}

// -----

// Halves of an odd number of rows would lose the last one.
// CHECK: 'stepwell.dynamic_reshape' op: requires equal dimensions, but
module attributes {stepwell.ranges = {n = [4, 8, 1]}} {
  func.func @main(%x: tensor<?x8xf32> {stepwell.dims = ["n", 8]}) -> tensor<?x?x?xf32> {
    %shape = "stepwell.constant"() {value = dense<[2, -1, 8]> : tensor<3xi64>} : () -> tensor<3xi64>
    %0 = "stepwell.dynamic_reshape"(%x, %shape) {allow_zero = false} : (tensor<?x8xf32>, tensor<3xi64>) -> tensor<?x?x?xf32>
    return %0 : tensor<?x?x?xf32>
  }
}

// -----

// CHECK: attribute 'stepwell.ranges' must be a dictionary of [minimum, maximum, step] by name, with 0 <= minimum <= maximum and 1 <= step, but is {n = [8, 4, 1]}
module attributes {stepwell.ranges = {n = [8, 4, 1]}} {
  func.func @main(%x: tensor<?xf32> {stepwell.dims = ["n"]}) -> tensor<?xf32> {
    return %x : tensor<?xf32>
  }
}

// -----

// CHECK: attribute 'stepwell.ranges' must be a dictionary of {{.*}}, but is "n"
module attributes {stepwell.ranges = "n"} {
  func.func @main(%x: tensor<?xf32> {stepwell.dims = ["n"]}) -> tensor<?xf32> {
    return %x : tensor<?xf32>
  }
}

// -----

// CHECK: 'stepwell.join_rows' op: the length of the rows varies
module attributes {stepwell.ranges = {n = [2, 16, 1]}} {
  func.func @main(%x: tensor<4x?xi64> {stepwell.dims = [4, "n"]}) -> tensor<?x2xi64> {
    %0 = "stepwell.join_rows"(%x) : (tensor<4x?xi64>) -> tensor<?x2xi64>
    return %0 : tensor<?x2xi64>
  }
}

// -----

// CHECK: 'stepwell.broadcast_to' op: depends on the size 'm', which no input has
module attributes {stepwell.ranges = {n = [1, 16, 1]}} {
  func.func @main(%x: tensor<?xf32> {stepwell.dims = ["n"]}, %y: tensor<4xf32>) -> tensor<?xf32> {
    %0 = "stepwell.broadcast_to"(%y) {shape = ["m", 4]} : (tensor<4xf32>) -> tensor<?x4xf32, ["m", 4]>
    %1 = "stepwell.relu"(%0) : (tensor<?x4xf32, ["m", 4]>) -> tensor<?x4xf32, ["m", 4]>
    return %x : tensor<?xf32>
  }
}
