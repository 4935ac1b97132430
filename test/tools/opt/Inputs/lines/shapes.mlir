func.func @large(%a: tensor<4294967296x4294967296xf32>, %b: tensor<0x?xf32>, %c: tensor<9223372036854775807xi8>) -> tensor<4294967296x4294967296xf32> {
  return %a : tensor<4294967296x4294967296xf32>
}
func.func @constant() -> tensor<1000000x1000000xf32> {
  %0 = arith.constant dense<1.0> : tensor<1000000x1000000xf32>
  return %0 : tensor<1000000x1000000xf32>
}
