// RUN: stepwell-opt %s --verify-diagnostics

func.func @resizing(%img: tensor<1x3x8x8xf32>, %x: tensor<4x8xf32>, %v: tensor<8xf32>, %n: tensor<2xi64>) {
  // expected-error @+1 {{'stepwell.resize' op attribute 'sizes' must have 4 entries, but has 2}}
  %0 = "stepwell.resize"(%img) {sizes = array<i64: 4, 4>, scales = dense<1.0> : tensor<4xf32>}
    : (tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32>
  // expected-error @+1 {{'stepwell.resize' op attribute 'mode' must be one of nearest, linear, cubic, but is area}}
  %1 = "stepwell.resize"(%img) {sizes = array<i64: 1, 3, 4, 4>, scales = dense<1.0> : tensor<4xf32>, mode =
    "area"}
    : (tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32>
  // expected-error @+1 {{'stepwell.resize' op attribute 'scales' must be 4 floats, but is 2xf32}}
  %2 = "stepwell.resize"(%img) {sizes = array<i64: 1, 3, 4, 4>, scales = dense<1.0> : tensor<2xf32>}
    : (tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32>
  // expected-error @+1 {{'stepwell.dynamic_resize' op takes exactly one of the operands 'scales' and 'sizes'}}
  %3 = "stepwell.dynamic_resize"(%x) {operandSegmentSizes = array<i32: 1, 0, 0>}
    : (tensor<4x8xf32>) -> tensor<?x?xf32>
  // expected-error @+1 {{'stepwell.dynamic_resize' op takes exactly one of the operands 'scales' and 'sizes'}}
  %4 = "stepwell.dynamic_resize"(%x, %v, %n) {operandSegmentSizes = array<i32: 1, 1, 1>}
    : (tensor<4x8xf32>, tensor<8xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  // expected-error @+1 {{'stepwell.resample' op operand 'indices' must have element type i64, but is 8xf32}}
  %5 = "stepwell.resample"(%x, %v, %v) {axis = 0 : i64} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  // expected-error @+1 {{'stepwell.resample' op operand 'indices' must have rank 2, but is 2xi64}}
  %6 = "stepwell.resample"(%x, %n, %v) {axis = 0 : i64} : (tensor<4x8xf32>, tensor<2xi64>, tensor<8xf32>) -> tensor<8x8xf32>
  %i = "stepwell.constant"() {value = dense<0> : tensor<0x8xi64>} : () -> tensor<0x8xi64>
  %f = "stepwell.constant"() {value = dense<0.0> : tensor<0x8xf32>} : () -> tensor<0x8xf32>
  // expected-error @+1 {{'stepwell.resample' op operands 'indices' and 'weights' must have at least one term}}
  %7 = "stepwell.resample"(%x, %i, %f) {axis = 0 : i64} : (tensor<4x8xf32>, tensor<0x8xi64>, tensor<0x8xf32>) -> tensor<8x8xf32>
  return
}
