"""Passes on kernels while they are vector code: math as polynomials, cleanups."""
