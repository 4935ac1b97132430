// RUN: stepwell-opt %s --split-input-file --verify-diagnostics --stepwell-dce

// expected-error@below {{custom op 'no_such_op' is unknown}}
no_such_op

// -----

func.func @a(%x: f32) { "arith.addi"(%x, %x) : (f32, f32) -> f32 return } // expected-error {{'arith.addi' op operand #0 must be}}

// -----

func.func @b() {
  // expected-error-re@+1 {{exactly {{[0-9]+}} operands}}
  "stepwell.exp"() : () -> tensor<3xf32>
  return
}

// -----

module {
  func.func private @one()
  // expected-note@-1 {{see existing symbol definition here}}
  func.func private @one()
  // expected-error@above {{redefinition of symbol named 'one'}}
}
