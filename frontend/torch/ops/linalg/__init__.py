"""Factorisations of matrices, as loops over columns or rotations, and what follows from them."""

from . import elimination, functions, reflections, rotations, triangular  # noqa: F401  (importing them registers the handlers)
