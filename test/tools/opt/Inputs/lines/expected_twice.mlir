func.func @f(%a: f32) {
  // expected-error@+2 {{op operand #0 must be}}
  // expected-error@+1 {{op operand #0 must be}}
  %0 = "arith.addi"(%a, %a) : (f32, f32) -> f32
  return
}
