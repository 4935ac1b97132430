// RUN: stepwell-opt %s --stepwell-quantize-early --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @pooled
// CHECK: "stepwell.div"(%arg0
// CHECK: "stepwell.round"
// CHECK: "stepwell.add"
// CHECK: "stepwell.clip"
// CHECK: %[[BYTES:.*]] = "stepwell.cast"{{.*}} -> tensor<1x8x4x4xui8>
// CHECK: "stepwell.max_pool"(%[[BYTES]]){{.*}} -> tensor<1x8x2x2xui8>
func.func @pooled(%x: tensor<1x8x4x4xf32>) -> tensor<1x8x2x2xui8> {
  %s = "stepwell.constant"() {value = dense<0.1> : tensor<f32>} : () -> tensor<f32>
  %z = "stepwell.constant"() {value = dense<128.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.max_pool"(%x) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x8x4x4xf32>) -> tensor<1x8x2x2xf32>
  %1 = "stepwell.div"(%0, %s) : (tensor<1x8x2x2xf32>, tensor<f32>) -> tensor<1x8x2x2xf32>
  %2 = "stepwell.round"(%1) : (tensor<1x8x2x2xf32>) -> tensor<1x8x2x2xf32>
  %3 = "stepwell.add"(%2, %z) : (tensor<1x8x2x2xf32>, tensor<f32>) -> tensor<1x8x2x2xf32>
  %4 = "stepwell.clip"(%3) {minimum = 0.0, maximum = 255.0} : (tensor<1x8x2x2xf32>) -> tensor<1x8x2x2xf32>
  %5 = "stepwell.cast"(%4) {dtype = ui8} : (tensor<1x8x2x2xf32>) -> tensor<1x8x2x2xui8>
  return %5 : tensor<1x8x2x2xui8>
}

// -----

// Both operands of a concatenation are quantised, and an image before it is enlarged.
// CHECK-LABEL: func.func @joined
// CHECK: "stepwell.cast"{{.*}} -> tensor<1x8x4x4xui8>
// CHECK: %[[LARGE:.*]] = "stepwell.resize"{{.*}} -> tensor<1x8x8x8xui8>
// CHECK: %[[OTHER:.*]] = "stepwell.cast"{{.*}} -> tensor<1x4x8x8xui8>
// CHECK: "stepwell.concat"(%[[LARGE]], %[[OTHER]])
func.func @joined(%x: tensor<1x8x4x4xf32>, %y: tensor<1x4x8x8xf32>) -> tensor<1x12x8x8xui8> {
  %s = "stepwell.constant"() {value = dense<0.1> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.resize"(%x) {sizes = array<i64: 1, 8, 8, 8>, scales = dense<[1.0, 1.0, 2.0, 2.0]> : tensor<4xf32>, mode = "nearest", coordinates = "asymmetric", nearest = "floor"} : (tensor<1x8x4x4xf32>) -> tensor<1x8x8x8xf32>
  %1 = "stepwell.concat"(%0, %y) {axis = 1 : i64} : (tensor<1x8x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x12x8x8xf32>
  %2 = "stepwell.div"(%1, %s) : (tensor<1x12x8x8xf32>, tensor<f32>) -> tensor<1x12x8x8xf32>
  %3 = "stepwell.round"(%2) : (tensor<1x12x8x8xf32>) -> tensor<1x12x8x8xf32>
  %4 = "stepwell.clip"(%3) {minimum = 0.0, maximum = 255.0} : (tensor<1x12x8x8xf32>) -> tensor<1x12x8x8xf32>
  %5 = "stepwell.cast"(%4) {dtype = ui8} : (tensor<1x12x8x8xf32>) -> tensor<1x12x8x8xui8>
  return %5 : tensor<1x12x8x8xui8>
}

// -----

// Division by a negative number makes a minimum of the maximum.
// CHECK-LABEL: func.func @negative_scale
// CHECK: "stepwell.max_pool"(%arg0)
func.func @negative_scale(%x: tensor<1x8x4x4xf32>) -> tensor<1x8x2x2xui8> {
  %s = "stepwell.constant"() {value = dense<-0.1> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.max_pool"(%x) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x8x4x4xf32>) -> tensor<1x8x2x2xf32>
  %1 = "stepwell.div"(%0, %s) : (tensor<1x8x2x2xf32>, tensor<f32>) -> tensor<1x8x2x2xf32>
  %2 = "stepwell.round"(%1) : (tensor<1x8x2x2xf32>) -> tensor<1x8x2x2xf32>
  %3 = "stepwell.clip"(%2) {minimum = 0.0, maximum = 255.0} : (tensor<1x8x2x2xf32>) -> tensor<1x8x2x2xf32>
  %4 = "stepwell.cast"(%3) {dtype = ui8} : (tensor<1x8x2x2xf32>) -> tensor<1x8x2x2xui8>
  return %4 : tensor<1x8x2x2xui8>
}

// -----

// The floats are needed as well.
// CHECK-LABEL: func.func @negative_two_readers
// CHECK: "stepwell.max_pool"(%arg0)
func.func @negative_two_readers(%x: tensor<1x8x4x4xf32>) -> (tensor<1x8x2x2xui8>, tensor<1x8x2x2xf32>) {
  %s = "stepwell.constant"() {value = dense<0.1> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.max_pool"(%x) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x8x4x4xf32>) -> tensor<1x8x2x2xf32>
  %1 = "stepwell.div"(%0, %s) : (tensor<1x8x2x2xf32>, tensor<f32>) -> tensor<1x8x2x2xf32>
  %2 = "stepwell.round"(%1) : (tensor<1x8x2x2xf32>) -> tensor<1x8x2x2xf32>
  %3 = "stepwell.clip"(%2) {minimum = 0.0, maximum = 255.0} : (tensor<1x8x2x2xf32>) -> tensor<1x8x2x2xf32>
  %4 = "stepwell.cast"(%3) {dtype = ui8} : (tensor<1x8x2x2xf32>) -> tensor<1x8x2x2xui8>
  return %4, %0 : tensor<1x8x2x2xui8>, tensor<1x8x2x2xf32>
}

// -----

// A linear resize computes new numbers.
// CHECK-LABEL: func.func @negative_linear
// CHECK: "stepwell.resize"(%arg0)
func.func @negative_linear(%x: tensor<1x8x4x4xf32>) -> tensor<1x8x8x8xui8> {
  %0 = "stepwell.resize"(%x) {sizes = array<i64: 1, 8, 8, 8>, scales = dense<[1.0, 1.0, 2.0, 2.0]> : tensor<4xf32>, mode = "linear", coordinates = "asymmetric"} : (tensor<1x8x4x4xf32>) -> tensor<1x8x8x8xf32>
  %1 = "stepwell.round"(%0) : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %2 = "stepwell.clip"(%1) {minimum = 0.0, maximum = 255.0} : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %3 = "stepwell.cast"(%2) {dtype = ui8} : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xui8>
  return %3 : tensor<1x8x8x8xui8>
}
