// A scalar has no index, which was taken for one that is not given.
func.func @main(%x: tensor<i64>) -> tensor<3x1xi64> {
  %0 = "stepwell.broadcast_to"(%x) {shape = array<i64: 3, 1>} : (tensor<i64>) -> tensor<3x1xi64> loc("a")
  return %0 : tensor<3x1xi64>
}
