func.func @f(%a: f32) {
  "arith.addi"(%a, %a) : (f32, f32) -> f32 // expected-error {{'arith.addi' op operand #0 must be signless-integer-like}}
  return
}
