// expected-error-re@+1 {{custom {{(}} op}}
oops
