"""Symbolic dimensions: a tensor dimension is an `int`, or an expression over named sizes (`sizes/algebra.py`)."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..sizes import algebra, substitution
from ..sizes.algebra import Dimension as Dim
from ..sizes.algebra import Symbolic, ceil_div
from ..sizes.assumptions import in_force
from ..sizes.expressions import evaluate, names_in, parse_expression
from ..sizes.intervals import Interval
from ..sizes.ratios import Ratio

__all__ = [
    "MAX_RANK",
    "Dim",
    "DimShape",
    "Symbolic",
    "bind",
    "ceil_div",
    "is_known",
    "is_static",
    "named",
    "numbers",
    "parsed",
    "product",
    "symbol",
]

_FRESH = itertools.count()
_UNNAMED = "?"

DimShape = tuple[Dim, ...]

MAX_RANK = 32 if np.__version__.startswith("1.") else 64
"""Maximum number of dimensions of a numpy array."""


def symbol(name: str) -> Symbolic:
    """The size called `name`; the same name always denotes the same dimension."""
    return algebra.size(name)


def named(name: str) -> Symbolic:
    """The size of a dimension that a model calls `name`, which may be any text; other characters are spelt in hex."""
    plain = re.sub(r"[^\w.:]", lambda match: f"_x{ord(match.group()):x}_", name)
    return symbol(plain if re.match(r"[^\W\d]", plain) else f"_{plain}")


def limits_of(ranges: Mapping[str, Sequence[int]]) -> dict[str, Interval]:
    """The limits assumed of sizes, from the least and the greatest value of each dimension of a model, by name."""
    return {str(named(name)): (values[0], values[1]) for name, values in ranges.items()}


def unknown() -> Symbolic:
    """A fresh size: a dimension about which nothing is known."""
    return symbol(f"{_UNNAMED}{next(_FRESH)}")


def text(dim: Dim) -> str:
    """`dim` as it is spelt in a type: a number, an expression over named sizes, or `?` for each unnamed size."""
    return re.sub(r"\?\d+", "?", str(dim))


def is_known(dim: Dim | Ratio) -> bool:
    """Returns whether a dimension, or a ratio of one, is a number or an expression over named sizes."""
    if isinstance(dim, Ratio):
        return is_known(dim.numerator)
    return isinstance(dim, int) or not any(name.startswith(_UNNAMED) for name in substitution.names_of(dim))


def parsed(text: str) -> Dim:
    """The dimension that `text` spells.

    Raises:
        ValueError: it is not an expression.
    """
    return _parsed(text, in_force())


@functools.lru_cache(4096)
def _parsed(text: str, _assumed: tuple) -> Dim:
    expression = parse_expression(text)
    return evaluate(expression, {name: symbol(name) for name in names_in(expression)})


def product(dims: Iterable[Dim]) -> Dim:
    """The number of elements of a shape."""
    return math.prod(dims)


def array(dims: Sequence[Dim | Ratio], shape: Sequence[int]) -> np.ndarray:
    """Dimensions, or ratios of them, as the contents of a tensor of numbers and expressions."""
    contents = np.empty(len(dims), object)
    contents[:] = dims
    return contents.reshape(shape)


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
    return substitution.bound(dim, values)
