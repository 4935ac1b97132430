// The packed kernels only take unsigned 8-bit integers on the left.
func.func @main(%x: tensor<64x5xi8>) -> (tensor<64x2xi32>) {
  %w = "stepwell.constant"() {value = dense<[[1, -2], [3, 4], [-128, 127], [5, 6], [7, -8]]> : tensor<5x2xi8>} : () -> tensor<5x2xi8> loc("w")
  %0 = "stepwell.matmul"(%x, %w) : (tensor<64x5xi8>, tensor<5x2xi8>) -> tensor<64x2xi32> loc("a")
  return %0 : tensor<64x2xi32>
}
