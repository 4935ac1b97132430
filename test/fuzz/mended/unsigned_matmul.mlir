// Contractions refused unsigned integers.
func.func @main(%x: tensor<5x17xui8>, %y: tensor<17x9xui8>) -> tensor<5x9xui8> {
  %0 = "stepwell.matmul"(%x, %y) : (tensor<5x17xui8>, tensor<17x9xui8>) -> tensor<5x9xui8> loc("a")
  return %0 : tensor<5x9xui8>
}
