func.func @f(%a: f32) {
  // expected-note@+2 {{called from}}
  // expected-error@+2 {{operand #0}}
  %0 = "arith.addi"(%a, %a) : (f32, f32) -> f32 loc(callsite("expected_callsite.mlir":5:1 at "expected_callsite.mlir":4:1))
  return
}
