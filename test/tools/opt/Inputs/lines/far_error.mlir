func.func @f(%a: f32) {
  %0 = "arith.addi"(%a, %a) : (f32, f32) -> f32 loc("far_error.mlir":1000:1000)
  return
}
