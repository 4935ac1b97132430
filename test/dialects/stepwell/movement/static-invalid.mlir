// RUN: stepwell-opt %s --verify-diagnostics

func.func @static(%x: tensor<4x8xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'stepwell.reshape' op cannot reshape 4x8xf32 to 5x5: it has 32 elements, not 25}}
  %0 = "stepwell.reshape"(%x) {shape = array<i64: 5, 5>} : (tensor<4x8xf32>) -> tensor<5x5xf32>
  // expected-error @+1 {{'stepwell.transpose' op 0, 0 is not a permutation of the 2 dimensions of 4x8xf32}}
  %1 = "stepwell.transpose"(%x) {permutation = array<i64: 0, 0>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.concat' op axis 2 is out of range for rank 2}}
  %2 = "stepwell.concat"(%x, %x) {axis = 2 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.concat' op operands must have equal shapes except for axis 0, but are 4x8xf32 and 8xf32}}
  %3 = "stepwell.concat"(%x, %v) {axis = 0 : i64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.slice' op cannot slice 0 to 9 of the 8 elements of axis 1}}
  %4 = "stepwell.slice"(%x) {starts = array<i64: 0, 0>, stops = array<i64: 4, 9>, steps = array<i64: 1, 1>}
    : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.reverse' op axes 0, 0 name one axis twice}}
  %5 = "stepwell.reverse"(%x) {axes = array<i64: 0, 0>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.pad' op attribute 'low' must have 2 entries, but has 1}}
  %6 = "stepwell.pad"(%x) {low = array<i64: 0>, high = array<i64: 0, 0>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.pad' op mode reflect cannot add 4 and 0 elements to the 4 of axis 0}}
  %7 = "stepwell.pad"(%x) {low = array<i64: 4, 0>, high = array<i64: 0, 0>, mode = "reflect"}
    : (tensor<4x8xf32>) -> tensor<8x8xf32>
  // expected-error @+1 {{'stepwell.broadcast_to' op cannot broadcast 4x8xf32 to 4x1}}
  %8 = "stepwell.broadcast_to"(%x) {shape = array<i64: 4, 1>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  // expected-error @+1 {{'stepwell.gather' op operand 'indices' must be integers, but is 4x8xf32}}
  %9 = "stepwell.gather"(%x, %x) {axis = 0 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.tile' op attribute 'repeats' must have 2 entries, but has 1}}
  %10 = "stepwell.tile"(%x) {repeats = array<i64: 2>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{'stepwell.squeeze' op axis 0 of 4x8xf32 has extent 4 and cannot be squeezed}}
  %11 = "stepwell.squeeze"(%x) {axes = array<i64: 0>} : (tensor<4x8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{'stepwell.expand_dims' op axis 4 is out of range for rank 3}}
  %12 = "stepwell.expand_dims"(%x) {axes = array<i64: 4>} : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
  return
}
