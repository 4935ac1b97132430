// expected-error-re@+1 {{custom op '{{[a-z]+}}' is {{un.*n}}}}
oops
