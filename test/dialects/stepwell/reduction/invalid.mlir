// RUN: stepwell-opt %s --verify-diagnostics

func.func @reduction(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'stepwell.reduce_sum' op axis 2 is out of range for rank 2}}
  %0 = "stepwell.reduce_sum"(%x) {axes = array<i64: 2>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  // expected-error @+1 {{'stepwell.reduce_mean' op axis 2 is out of range for rank 2}}
  %1 = "stepwell.reduce_mean"(%x) {axes = array<i64: 2>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  // expected-error @+1 {{'stepwell.reduce_prod' op axis 2 is out of range for rank 2}}
  %2 = "stepwell.reduce_prod"(%x) {axes = array<i64: 2>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  // expected-error @+1 {{'stepwell.reduce_max' op axes 1, -1 name one axis twice}}
  %3 = "stepwell.reduce_max"(%x) {axes = array<i64: 1, -1>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  // expected-error @+1 {{'stepwell.reduce_min' op inferred type 4xf32 differs from the declared 4x1xf32}}
  %4 = "stepwell.reduce_min"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  // expected-error @+1 {{'stepwell.argmax' op axis 2 is out of range for rank 2}}
  %5 = "stepwell.argmax"(%x) {axis = 2 : i64} : (tensor<4x8xf32>) -> tensor<4x1xi64>
  // expected-error @+1 {{'stepwell.argmax' op inferred type 4x1xi64 differs from the declared 4x1xf32}}
  %6 = "stepwell.argmax"(%x) {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  return
}
