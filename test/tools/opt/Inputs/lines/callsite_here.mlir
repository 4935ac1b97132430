func.func @f(%a: f32) {
  %0 = "arith.addi"(%a, %a) : (f32, f32) -> f32 loc(callsite("callsite_here.mlir":1:2 at "callsite_here.mlir":3:4))
  return
}
