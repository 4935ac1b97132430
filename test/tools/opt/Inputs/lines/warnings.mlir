func.func @f() {
  return
}
{-#
  external_resources: {
    somebody: { key: "value" }
  }
#-}
