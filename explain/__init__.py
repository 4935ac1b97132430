"""Tools that explain a compile: failures, wrong values, performance, and what the compiler did."""
