"""Passes on kernels at the vector level: polynomial approximations of math functions, cleanups."""
