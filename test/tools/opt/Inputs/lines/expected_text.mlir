// expected-error@+1 {{something else}}
oops
