// expected-error@+1 {{custom op 'oops' is unknown}}
oops
