// Contractions refused unsigned integers.
func.func @main(%x: tensor<5x17xui16>, %y: tensor<17x9xui16>) -> tensor<5x9xui16> {
  %0 = "stepwell.matmul"(%x, %y) : (tensor<5x17xui16>, tensor<17x9xui16>) -> tensor<5x9xui16> loc("a")
  return %0 : tensor<5x9xui16>
}
