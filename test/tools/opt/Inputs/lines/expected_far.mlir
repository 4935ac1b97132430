func.func @f(%a: f32) {
  %0 = "arith.addi"(%a, %a) : (f32, f32) -> f32
  return
}
// expected-error@-3 {{op operand #0 must be signless-integer-like}}
// expected-error@-100 {{before the start}}
// expected-error@+100 {{after the end}}
