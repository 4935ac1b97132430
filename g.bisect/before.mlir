#loc = loc("AveragePoolOp_6")
module attributes {stepwell.phase = "graph"} {
  func.func @main(%arg0: tensor<16x5x16x1x1xf32> loc("AveragePoolOp_6")) -> tensor<16x5x16x1x1xf32> {
    %0 = "stepwell.average_pool"(%arg0) {ceil_mode = false, count_include_pad = true, dilations = array<i64: 1, 1, 1>, kernel = array<i64: 1, 3, 3>, layout = "channels_last", pads = array<i64: 0, 1, 1, 0, 1, 1>, strides = array<i64: 1, 1, 1>} : (tensor<16x5x16x1x1xf32>) -> tensor<16x5x16x1x1xf32> loc(#loc)
    return %0 : tensor<16x5x16x1x1xf32> loc(#loc)
  } loc(#loc)
} loc(#loc)

{-#
  external_resources: {
    mlir_reproducer: {
      pipeline: "builtin.module(stepwell-vectorize)",
      disable_threading: false,
      verify_each: true
    }
  }
#-}
