// The minimum of a constant 0 is a scalar constant in its loop, where a vector was expected.
func.func @main(%x: tensor<15x16x17xi1>) -> tensor<1x16x17xi1> {
  %0 = "stepwell.xor"(%x, %x) : (tensor<15x16x17xi1>, tensor<15x16x17xi1>) -> tensor<15x16x17xi1> loc("a")
  %1 = "stepwell.reduce_min"(%0) {axes = array<i64: 0>, keepdims = true} : (tensor<15x16x17xi1>) -> tensor<1x16x17xi1> loc("b")
  return %1 : tensor<1x16x17xi1>
}
