func.func @one() { return }

// -----

oops // expected-error {{custom op 'oops' is unknown}}

// -----

oops

// -----

// expected-error@+1 {{never}}
func.func @four() { return }
