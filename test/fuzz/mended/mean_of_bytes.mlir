// The sum of this many 8-bit integers does not fit into 8 bits.
module {
  func.func @main(%arg0: tensor<33x5xui8>) -> tensor<5xui8> {
    %0 = "stepwell.reduce_mean"(%arg0) {axes = array<i64: 0>, keepdims = false} : (tensor<33x5xui8>) -> tensor<5xui8>
    return %0 : tensor<5xui8>
  }
}
