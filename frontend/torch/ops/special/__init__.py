"""Special functions, as formulas of elementary ones."""

from . import bessel, error, gamma, polynomials  # noqa: F401  (importing them registers the handlers)
