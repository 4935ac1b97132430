// RUN: stepwell-opt %s --stepwell-canonicalize | FileCheck %s

// CHECK-LABEL: func.func @add_zero
// CHECK-SAME: (%[[X:.+]]: tensor<4xf32>)
func.func @add_zero(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = "stepwell.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.add"(%x, %zero) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK-NEXT: return %[[X]]
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @negative_add_zero_that_broadcasts
func.func @negative_add_zero_that_broadcasts(%x: tensor<1xf32>) -> tensor<4xf32> {
  %zero = "stepwell.constant"() {value = dense<0.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %0 = "stepwell.add"(%x, %zero) : (tensor<1xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: stepwell.broadcast_to
  // CHECK-NOT: stepwell.add
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @negative_mul_zero_of_floats
func.func @negative_mul_zero_of_floats(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = "stepwell.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  // NaN times zero is NaN.
  // CHECK: stepwell.mul
  %0 = "stepwell.mul"(%x, %zero) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @mul_zero_of_integers
func.func @mul_zero_of_integers(%x: tensor<4xi64>) -> tensor<4xi64> {
  %zero = "stepwell.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
  // CHECK: %[[ZERO:.+]] = "stepwell.constant"() {value = dense<0> : tensor<4xi64>}
  // CHECK-NEXT: return %[[ZERO]]
  %0 = "stepwell.mul"(%x, %zero) : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// CHECK-LABEL: func.func @square
// CHECK-SAME: (%[[X:.+]]: tensor<4xf32>)
func.func @square(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = "stepwell.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  // CHECK: "stepwell.mul"(%[[X]], %[[X]])
  %0 = "stepwell.pow"(%x, %two) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @div_by_power_of_two
func.func @div_by_power_of_two(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = "stepwell.constant"() {value = dense<8.0> : tensor<f32>} : () -> tensor<f32>
  // CHECK: %[[C:.+]] = "stepwell.constant"() {value = dense<1.250000e-01>
  // CHECK: "stepwell.mul"(%{{.+}}, %[[C]])
  %0 = "stepwell.div"(%x, %c) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @negative_div_by_three
func.func @negative_div_by_three(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = "stepwell.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  // CHECK: stepwell.div
  %0 = "stepwell.div"(%x, %c) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @merge_factors
func.func @merge_factors(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stepwell.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %b = "stepwell.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.mul"(%x, %a) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK: %[[C:.+]] = "stepwell.constant"() {value = dense<1.500000e+00>
  // CHECK-NEXT: "stepwell.mul"(%{{.+}}, %[[C]])
  // CHECK-NEXT: return
  %1 = "stepwell.mul"(%b, %0) : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @relu6
func.func @relu6(%x: tensor<4xf32>) -> tensor<4xf32> {
  %six = "stepwell.constant"() {value = dense<6.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: "stepwell.clip"(%{{.+}}) {maximum = 6.000000e+00 : f64, minimum = 0.000000e+00 : f64}
  // CHECK-NEXT: return
  %1 = "stepwell.minimum"(%0, %six) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @negative_narrowing_cast
func.func @negative_narrowing_cast(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-COUNT-2: stepwell.cast
  %0 = "stepwell.cast"(%x) {dtype = i32} : (tensor<4xf32>) -> tensor<4xi32>
  %1 = "stepwell.cast"(%0) {dtype = f32} : (tensor<4xi32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

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
