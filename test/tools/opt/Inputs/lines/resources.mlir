func.func @r() -> tensor<3xi64> {
  %0 = arith.constant dense_resource<blob> : tensor<3xi64>
  return %0 : tensor<3xi64>
}
{-#
  dialect_resources: {
    builtin: {
      blob: "0x08000000010000000000000002000000000000000300000000000000"
    }
  },
  external_resources: {
    other_tool: {
      version: "1",
      on: true
    }
  }
#-}
