module {
  // expected-note@below {{see existing symbol definition here}}
  func.func private @one()
  // expected-error@below {{redefinition of symbol named 'one'}}
  func.func private @one()
}
