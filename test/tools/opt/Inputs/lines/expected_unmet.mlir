// expected-error@+1 {{no such thing}}
func.func @f() { return }
// expected-remark@below {{one}}
// expected-note@above {{two}}
// expected-warning {{three}}
