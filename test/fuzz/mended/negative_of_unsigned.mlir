// The negative of 1 is 255, and so is the absolute value of that.
func.func @main(%x: tensor<3x4xui8>) -> tensor<3x4xui8> {
  %0 = "stepwell.neg"(%x) : (tensor<3x4xui8>) -> tensor<3x4xui8>
  %1 = "stepwell.abs"(%0) : (tensor<3x4xui8>) -> tensor<3x4xui8>
  return %1 : tensor<3x4xui8>
}
