// RUN: stepwell-opt %s --stepwell-canonicalize | FileCheck %s

// CHECK-LABEL: func.func @pool_to_reduce
func.func @pool_to_reduce(%x: tensor<1x4x6x6xf32>) -> (tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>) {
  // CHECK: "stepwell.reduce_mean"(%{{.+}}) {axes = array<i64: 2, 3>, keepdims = true}
  %0 = "stepwell.average_pool"(%x) {kernel = array<i64: 6, 6>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x4x6x6xf32>) -> tensor<1x4x1x1xf32>
  // CHECK: "stepwell.reduce_sum"(%{{.+}}) {axes = array<i64: 2, 3>, keepdims = true}
  %1 = "stepwell.sum_pool"(%x) {kernel = array<i64: 8, 6>, strides = array<i64: 8, 8>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = true} : (tensor<1x4x6x6xf32>) -> tensor<1x4x1x1xf32>
  return %0, %1 : tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>
}

// CHECK-LABEL: func.func @negative_pool_to_reduce
func.func @negative_pool_to_reduce(%x: tensor<1x4x6x6xf32>) -> (tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>) {
  // A window smaller than the image, and one with gaps.
  // CHECK: stepwell.average_pool
  %0 = "stepwell.average_pool"(%x) {kernel = array<i64: 5, 6>, strides = array<i64: 2, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x4x6x6xf32>) -> tensor<1x4x1x1xf32>
  // CHECK: stepwell.sum_pool
  %1 = "stepwell.sum_pool"(%x) {kernel = array<i64: 8, 6>, strides = array<i64: 16, 8>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 2, 1>, ceil_mode = true} : (tensor<1x4x6x6xf32>) -> tensor<1x4x1x1xf32>
  return %0, %1 : tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>
}

// CHECK-LABEL: func.func @pool_of_nothing
// CHECK-SAME: (%[[X:.+]]: tensor<1x4x6x6xf32>)
func.func @pool_of_nothing(%x: tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32> {
  // CHECK-NEXT: return %[[X]]
  %0 = "stepwell.max_pool"(%x) {kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
  return %0 : tensor<1x4x6x6xf32>
}

// Such a pool leaves out every second row.
// CHECK-LABEL: func.func @negative_pool_with_stride
func.func @negative_pool_with_stride(%x: tensor<1x4x6x6xf32>) -> tensor<1x4x3x6xf32> {
  // CHECK-NEXT: stepwell.max_pool
  %0 = "stepwell.max_pool"(%x) {kernel = array<i64: 1, 1>, strides = array<i64: 2, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x4x6x6xf32>) -> tensor<1x4x3x6xf32>
  return %0 : tensor<1x4x3x6xf32>
}

// Padding counts as elements of the mean here.
// CHECK-LABEL: func.func @negative_pool_with_padding
func.func @negative_pool_with_padding(%x: tensor<1x4x6x6xf32>) -> tensor<1x4x1x1xf32> {
  // CHECK-NEXT: stepwell.average_pool
  %0 = "stepwell.average_pool"(%x) {kernel = array<i64: 8, 8>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, count_include_pad = true} : (tensor<1x4x6x6xf32>) -> tensor<1x4x1x1xf32>
  return %0 : tensor<1x4x1x1xf32>
}

// CHECK-LABEL: func.func @reduce_unit_dims
func.func @reduce_unit_dims(%x: tensor<4x1x6xf32>) -> tensor<4x6xf32> {
  // CHECK-NEXT: "stepwell.reshape"(%{{.+}}) {shape = array<i64: 4, 6>}
  %0 = "stepwell.reduce_mean"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<4x1x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @negative_reduce_other_dims
func.func @negative_reduce_other_dims(%x: tensor<4x1x6xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: stepwell.reduce_mean
  %0 = "stepwell.reduce_mean"(%x) {axes = array<i64: 1, 2>, keepdims = false} : (tensor<4x1x6xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @max_of_max
func.func @max_of_max(%x: tensor<4x5x6xf32>) -> tensor<4x1x1xf32> {
  %0 = "stepwell.reduce_max"(%x) {axes = array<i64: 2>, keepdims = true} : (tensor<4x5x6xf32>) -> tensor<4x5x1xf32>
  // CHECK-NEXT: "stepwell.reduce_max"(%{{.+}}) {axes = array<i64: 1, 2>, keepdims = true}
  // CHECK-NEXT: return
  %1 = "stepwell.reduce_max"(%0) {axes = array<i64: 1>, keepdims = true} : (tensor<4x5x1xf32>) -> tensor<4x1x1xf32>
  return %1 : tensor<4x1x1xf32>
}

// CHECK-LABEL: func.func @negative_max_of_min
func.func @negative_max_of_min(%x: tensor<4x5x6xf32>) -> tensor<4x1x1xf32> {
  // CHECK-NEXT: stepwell.reduce_min
  // CHECK-NEXT: stepwell.reduce_max
  %0 = "stepwell.reduce_min"(%x) {axes = array<i64: 2>, keepdims = true} : (tensor<4x5x6xf32>) -> tensor<4x5x1xf32>
  %1 = "stepwell.reduce_max"(%0) {axes = array<i64: 1>, keepdims = true} : (tensor<4x5x1xf32>) -> tensor<4x1x1xf32>
  return %1 : tensor<4x1x1xf32>
}

// Sums of floats depend on their order.
// CHECK-LABEL: func.func @negative_sum_of_sum
func.func @negative_sum_of_sum(%x: tensor<4x5x6xf32>) -> tensor<4x1x1xf32> {
  // CHECK-COUNT-2: stepwell.reduce_sum
  %0 = "stepwell.reduce_sum"(%x) {axes = array<i64: 2>, keepdims = true} : (tensor<4x5x6xf32>) -> tensor<4x5x1xf32>
  %1 = "stepwell.reduce_sum"(%0) {axes = array<i64: 1>, keepdims = true} : (tensor<4x5x1xf32>) -> tensor<4x1x1xf32>
  return %1 : tensor<4x1x1xf32>
}

// All elements would be read twice.
// CHECK-LABEL: func.func @negative_max_read_twice
func.func @negative_max_read_twice(%x: tensor<4x5x6xf32>) -> (tensor<4x5x1xf32>, tensor<4x1x1xf32>) {
  // CHECK-NEXT: %[[INNER:.+]] = "stepwell.reduce_max"
  // CHECK-NEXT: "stepwell.reduce_max"(%[[INNER]])
  %0 = "stepwell.reduce_max"(%x) {axes = array<i64: 2>, keepdims = true} : (tensor<4x5x6xf32>) -> tensor<4x5x1xf32>
  %1 = "stepwell.reduce_max"(%0) {axes = array<i64: 1>, keepdims = true} : (tensor<4x5x1xf32>) -> tensor<4x1x1xf32>
  return %0, %1 : tensor<4x5x1xf32>, tensor<4x1x1xf32>
}

// One op cannot keep one of the dimensions and drop the other.
// CHECK-LABEL: func.func @negative_max_keeps_one
func.func @negative_max_keeps_one(%x: tensor<4x5x6xf32>) -> tensor<4x1xf32> {
  // CHECK-COUNT-2: stepwell.reduce_max
  %0 = "stepwell.reduce_max"(%x) {axes = array<i64: 2>, keepdims = true} : (tensor<4x5x6xf32>) -> tensor<4x5x1xf32>
  %1 = "stepwell.reduce_max"(%0) {axes = array<i64: 1>, keepdims = false} : (tensor<4x5x1xf32>) -> tensor<4x1xf32>
  return %1 : tensor<4x1xf32>
}

// CHECK-LABEL: func.func @squeeze
func.func @squeeze(%x: tensor<4x5x6xf32>) -> tensor<4x6xf32> {
  %0 = "stepwell.reduce_sum"(%x) {axes = array<i64: 1>, keepdims = true} : (tensor<4x5x6xf32>) -> tensor<4x1x6xf32>
  // CHECK-NEXT: "stepwell.reduce_sum"(%{{.+}}) {axes = array<i64: 1>, keepdims = false}
  // CHECK-NEXT: return
  %1 = "stepwell.reshape"(%0) {shape = array<i64: 4, 6>} : (tensor<4x1x6xf32>) -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @negative_squeeze_to_other_shape
func.func @negative_squeeze_to_other_shape(%x: tensor<4x5x6xf32>) -> tensor<6x4xf32> {
  // CHECK-NEXT: stepwell.reduce_sum
  // CHECK-NEXT: stepwell.reshape
  %0 = "stepwell.reduce_sum"(%x) {axes = array<i64: 1>, keepdims = true} : (tensor<4x5x6xf32>) -> tensor<4x1x6xf32>
  %1 = "stepwell.reshape"(%0) {shape = array<i64: 6, 4>} : (tensor<4x1x6xf32>) -> tensor<6x4xf32>
  return %1 : tensor<6x4xf32>
}

// The sum would be computed twice.
// CHECK-LABEL: func.func @negative_squeeze_read_twice
func.func @negative_squeeze_read_twice(%x: tensor<4x5x6xf32>) -> (tensor<4x1x6xf32>, tensor<4x6xf32>) {
  // CHECK-NEXT: stepwell.reduce_sum
  // CHECK-NEXT: stepwell.reshape
  %0 = "stepwell.reduce_sum"(%x) {axes = array<i64: 1>, keepdims = true} : (tensor<4x5x6xf32>) -> tensor<4x1x6xf32>
  %1 = "stepwell.reshape"(%0) {shape = array<i64: 4, 6>} : (tensor<4x1x6xf32>) -> tensor<4x6xf32>
  return %0, %1 : tensor<4x1x6xf32>, tensor<4x6xf32>
}
