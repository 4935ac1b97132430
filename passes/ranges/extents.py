"""Symbolic extents: the part of each dimension that holds data in a tensor allocated at its upper bounds.

A dimension is a list of factors, as after a reshape. [batch, length] merged into one dimension has the factors batch
and length: of 64 * 512 elements at the upper bounds, those whose indices are below both extents hold data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...dialects import dims
from ...dialects.dims import Dim, Symbolic
from .errors import RangesError


@dataclass(frozen=True)
class Factor:
    """A part of a dimension.

    Attributes:
        extent: number of elements with data, an integer or an expression over symbolic sizes.
        size: number of elements.
    """

    extent: Dim
    size: int

    @property
    def is_dynamic(self) -> bool:
        """True if the extent is symbolic."""
        return isinstance(self.extent, Symbolic)


Extent = tuple[Factor, ...]
"""One dimension as factors, the outermost first."""


MOST_PLACES = 1 << 24
"""Maximum size of a dimension for which a mask or index constant is created."""


def numbered(count: int) -> np.ndarray:
    """The indices along a dimension as a constant, to compare with extents.

    Raises:
        RangesError: the dimension is too large for a constant in the program.
    """
    if count > MOST_PLACES:
        raise RangesError(f"it masks {count} elements, too many for a constant; let the range end lower")
    return np.arange(count)


def whole(size: int) -> Extent:
    """A dimension full of data."""
    return (Factor(size, size),)


def is_dynamic(extent: Extent) -> bool:
    """Returns whether the extent of a dimension is symbolic."""
    return any(factor.is_dynamic for factor in extent)


def size_of(extent: Extent) -> int:
    """The number of elements of a dimension at its upper bound."""
    return math.prod(factor.size for factor in extent)


def count_of(extent: Extent) -> Dim:
    """The number of elements of a dimension that hold data."""
    return dims.product(factor.extent for factor in extent)


def symbolic(extents: Sequence[Extent]) -> tuple[Dim, ...]:
    """The shape of the data, as expressions."""
    return tuple(count_of(extent) for extent in extents)


def prefix(dim: Dim, size: int) -> Extent:
    """A dimension of `size` elements whose first `dim` hold data."""
    return (Factor(dim, size),) if isinstance(dim, Symbolic) else whole(size)


def regroup(
    old: Sequence[Extent], shape: Sequence[int], divided: Callable[[Dim, int], Dim | None]
) -> list[Extent] | None:
    """The dimensions of a reshape to `shape`; None if the data would have to move.

    `divided(extent, count)` divides an extent by a count; None if there may be a remainder.
    """
    factors = [factor for extent in old for factor in extent if factor.size != 1 or factor.is_dynamic]
    found: list[Extent] = []
    for size in shape:
        group: list[Factor] = []
        while (done := math.prod(factor.size for factor in group)) < size:
            wanted, rest = divmod(size, done)
            if not factors or rest:
                return None
            first = factors.pop(0)
            if first.size > wanted:
                inner, rest = divmod(first.size, wanted)
                outer = divided(first.extent, inner)
                if rest or outer is None:
                    return None
                factors.insert(0, whole(inner)[0])
                first = Factor(outer, wanted)
            group.append(first)
        if math.prod(factor.size for factor in group) != size:
            return None
        found.append(_simple(group) if group else whole(size))
    return None if any(factor.size != 1 for factor in factors) else found


def _simple(group: Sequence[Factor]) -> Extent:
    """The same dimension with adjacent static factors merged."""
    simple: list[Factor] = []
    for factor in group:
        if simple and not factor.is_dynamic and not simple[-1].is_dynamic:
            last = simple.pop()
            factor = Factor(last.size * factor.size, last.size * factor.size)
        simple.append(factor)
    return tuple(simple)
