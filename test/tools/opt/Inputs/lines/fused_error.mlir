func.func @f(%a: f32) {
  %0 = "arith.addi"(%a, %a) : (f32, f32) -> f32 loc(fused["one.c":1:1, "two.c":2:2])
  return
}
