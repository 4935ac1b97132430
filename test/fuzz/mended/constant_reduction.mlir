// The least of what is 0 everywhere is a constant inside of its loop, where vectors were expected.
func.func @main(%x: tensor<15x16x17xi1>) -> tensor<1x16x17xi1> {
  %0 = "stepwell.xor"(%x, %x) : (tensor<15x16x17xi1>, tensor<15x16x17xi1>) -> tensor<15x16x17xi1> loc("a")
  %1 = "stepwell.reduce_min"(%0) {axes = array<i64: 0>, keepdims = true} : (tensor<15x16x17xi1>) -> tensor<1x16x17xi1> loc("b")
  return %1 : tensor<1x16x17xi1>
}
