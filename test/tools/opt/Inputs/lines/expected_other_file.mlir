func.func @f(%a: f32) {
  %0 = "arith.addi"(%a, %a) : (f32, f32) -> f32 loc("other.c":1:1) // expected-error {{operand #0}}
  return
}
