// A column must be copied, not viewed: reads by index assume that the elements of a row are contiguous.
func.func @main(%x: tensor<2x3x2x2xf32>) -> tensor<2x3x2x1xf32> {
  %0 = "stepwell.slice"(%x) {starts = array<i64: 0, 0, 0, 0>, stops = array<i64: 2, 3, 2, 1>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x3x2x2xf32>) -> tensor<2x3x2x1xf32>
  %1 = "stepwell.reverse"(%0) {axes = array<i64: 1, 2>} : (tensor<2x3x2x1xf32>) -> tensor<2x3x2x1xf32>
  return %1 : tensor<2x3x2x1xf32>
}
