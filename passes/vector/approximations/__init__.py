"""Elementary functions as polynomials: straight-line code that works on scalars and on vectors alike."""
