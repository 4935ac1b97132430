"""Factorisations of matrices, as loops over columns or rotations, and functions that are computed by them."""

from . import elimination, functions, reflections, rotations, symmetric, triangular  # noqa: F401  (importing them registers the handlers)
