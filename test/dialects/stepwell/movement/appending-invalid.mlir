// RUN: stepwell-opt %s --verify-diagnostics

func.func @appended(%x: tensor<2x7x4xf32>, %y: tensor<2x3x5xf32>, %z: tensor<2x3x4xf32>, %table: tensor<4xi64>, %f: tensor<4xf32>) {
  // expected-error @+1 {{'stepwell.append' op operands must have equal shapes except for axis 1, but are 2x7x4xf32 and 2x3x5xf32}}
  %0 = "stepwell.append"(%x, %y, %table) {axis = 1 : i64, ends = array<i64: 0, -1>, layout = array<i64>} : (tensor<2x7x4xf32>, tensor<2x3x5xf32>, tensor<4xi64>) -> tensor<2x10x4xf32>
  // expected-error @+1 {{'stepwell.append' op attribute 'layout' must have 2 entries, the strides before axis 1 and the number of elements, or none, but has 1}}
  %1 = "stepwell.append"(%x, %z, %table) {axis = 1 : i64, ends = array<i64: 0, -1>, layout = array<i64: 2>} : (tensor<2x7x4xf32>, tensor<2x3x4xf32>, tensor<4xi64>) -> tensor<2x10x4xf32>
  // expected-error @+1 {{'stepwell.append' op attribute 'held' must have 1 entries or none, but has 2}}
  %4 = "stepwell.append"(%x, %z, %table) {axis = 1 : i64, ends = array<i64: 0, -1>, layout = array<i64: 2, 3>, held = array<i64: 0, 1>} : (tensor<2x7x4xf32>, tensor<2x3x4xf32>, tensor<4xi64>) -> tensor<2x10x4xf32>
  // expected-error @+1 {{'stepwell.append' op attribute 'ends' must have 2 entries, but has 1}}
  %2 = "stepwell.append"(%x, %z, %table) {axis = 1 : i64, ends = array<i64: 0>, layout = array<i64>} : (tensor<2x7x4xf32>, tensor<2x3x4xf32>, tensor<4xi64>) -> tensor<2x10x4xf32>
  // expected-error @+1 {{'stepwell.append' op operand 'table' must be i64, but is 4xf32}}
  %3 = "stepwell.append"(%x, %z, %f) {axis = 1 : i64, ends = array<i64: 0, 1>, layout = array<i64>} : (tensor<2x7x4xf32>, tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x10x4xf32>
  return
}
