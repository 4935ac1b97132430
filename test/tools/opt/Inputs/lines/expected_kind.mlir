// expected-warning@+1 {{custom op 'oops' is unknown}}
oops
