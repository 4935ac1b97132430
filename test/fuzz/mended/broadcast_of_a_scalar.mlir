// The empty index of a scalar was mistaken for an absent one.
func.func @main(%x: tensor<i64>) -> tensor<3x1xi64> {
  %0 = "stepwell.broadcast_to"(%x) {shape = array<i64: 3, 1>} : (tensor<i64>) -> tensor<3x1xi64> loc("a")
  return %0 : tensor<3x1xi64>
}
