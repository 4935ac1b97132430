func.func @f() { oops } // expected-error {{one}} expected-error {{custom op 'oops' is unknown}}
