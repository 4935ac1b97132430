// expected-error@unknown {{op operand #0 must be signless-integer-like}}
func.func @f(%a: f32) {
  %0 = "arith.addi"(%a, %a) : (f32, f32) -> f32 loc(unknown)
  return
}
