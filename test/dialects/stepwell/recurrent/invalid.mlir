// RUN: stepwell-opt %s --verify-diagnostics

func.func @recurrent(%seq: tensor<10x1x16xf32>) {
  // expected-error @+1 {{'stepwell.lstm' op operand 'weight' must have shape 1x64x16, but is 10x1x16xf32}}
  %0:3 = "stepwell.lstm"(%seq, %seq, %seq) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>}
    : (tensor<10x1x16xf32>, tensor<10x1x16xf32>, tensor<10x1x16xf32>) -> (tensor<10x1x1x16xf32>,
    tensor<1x1x16xf32>, tensor<1x1x16xf32>)
  // expected-error @+1 {{'stepwell.lstm' op attribute 'direction' must be one of forward, reverse, bidirectional, but is backward}}
  %1:3 = "stepwell.lstm"(%seq, %seq, %seq) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, direction =
    "backward"}
    : (tensor<10x1x16xf32>, tensor<10x1x16xf32>, tensor<10x1x16xf32>) -> (tensor<10x1x1x16xf32>,
    tensor<1x1x16xf32>, tensor<1x1x16xf32>)
  return
}
