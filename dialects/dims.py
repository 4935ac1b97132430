"""Symbolic dimensions: a tensor dimension is an `int`, or an expression over named sizes (`sizes/algebra.py`)."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping

from ..sizes import algebra
from ..sizes.algebra import Dimension as Dim
from ..sizes.algebra import Symbolic, ceil_div

__all__ = ["MAX_RANK", "Dim", "Shape", "Symbolic", "bind", "ceil_div", "is_static", "numbers", "product", "symbol"]

_FRESH = itertools.count()

Shape = tuple[Dim, ...]

MAX_RANK = 64
"""Maximum number of dimensions of a numpy array."""


def symbol(name: str) -> Symbolic:
    """The size called `name`; the same name always denotes the same dimension."""
    return algebra.size(name)


def unknown() -> Symbolic:
    """A fresh size: a dimension about which nothing is known."""
    return symbol(f"?{next(_FRESH)}")


def text(dim: Dim) -> str:
    """`dim` as it is spelt in a type: a number, an expression over named sizes, or `?` for each unnamed size."""
    return re.sub(r"\?\d+", "?", str(dim))


def product(dims: Iterable[Dim]) -> Dim:
    """The number of elements of a shape."""
    return math.prod(dims)


def is_static(shape: Iterable[Dim]) -> bool:
    """Returns whether every dimension of `shape` is a number."""
    return all(isinstance(dim, int) for dim in shape)


def numbers(shape: Iterable[Dim]) -> tuple[int, ...]:
    """Returns `shape` as integers.

    Raises:
        ValueError: a dimension is not a number.
    """
    shape = tuple(shape)
    known = tuple(dim for dim in shape if isinstance(dim, int))
    if len(known) < len(shape):
        raise ValueError(f"the shape ({', '.join(map(str, shape))}) is not static: it has symbolic dimensions")
    return known


def bind(dim: Dim, values: Mapping[str, int]) -> Dim:
    """`dim` with the sizes named in `values` replaced by numbers."""
    return algebra.bound(dim, values)
