// A new op was allocated in the memory of an erased one, and mistaken for it.
func.func @main(%x: tensor<1x5x7xf32>, %y: tensor<5x7xf32>, %scale: tensor<5x7xf32>) -> tensor<1x5x7xf32> {
  %0 = "stepwell.add"(%x, %y) : (tensor<1x5x7xf32>, tensor<5x7xf32>) -> tensor<1x5x7xf32> loc("a")
  %1 = "stepwell.layer_norm"(%0, %scale) {axis = 1 : i64, epsilon = 1.0e-03 : f64, operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<1x5x7xf32>, tensor<5x7xf32>) -> tensor<1x5x7xf32> loc("b")
  return %1 : tensor<1x5x7xf32>
}
