func.func @f(%a: f32) {
  %0 = "arith.addi"(%a, %a) : (f32, f32) -> f32 loc(callsite("callee.c":1:2 at callsite("middle.c":3:4 at "caller.c":5:6)))
  return
}
