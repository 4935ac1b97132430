"""Dimensions of a row kernel merged into few axes, and the axis along which threads are adjacent."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from .....machines.gpus import ACCESS_BYTES
from .space import RowAccess, RowSpace

_MOST_LANES = 8
"""Maximum number of elements per access: 16 bytes of 16-bit floats."""


@dataclass(frozen=True)
class Axes:
    """Rows and columns as axes. An axis is a run of dimensions that every access traverses with a constant stride.

    Attributes:
        rows: axes over the rows, outermost first.
        columns: axes over the elements of a row, outermost first.
        along_columns: whether neighbours in memory are elements of one row (otherwise of neighbouring rows).
        lanes: number of neighbours per access.
    """

    rows: tuple[tuple[int, ...], ...]
    columns: tuple[tuple[int, ...], ...]
    along_columns: bool
    lanes: int


def merged_axes(space: RowSpace) -> Axes:
    """Returns the smallest number of axes, with the contiguous one innermost."""
    accesses = [access for access in space.accesses() if space.extent(range(len(space.sizes))) > 0]
    inner = _contiguous(space, accesses)
    rows, columns = (_ordered(space, dims, accesses) for dims in (space.rows, tuple(sorted(space.columns))))
    along_columns = inner in space.columns
    lanes = _lanes(space, (columns if along_columns else rows)[-1], accesses)
    return Axes(rows, columns, along_columns, lanes)


def _contiguous(space: RowSpace, accesses: Sequence[RowAccess]) -> int:
    """Returns the dimension along which most of the memory is contiguous."""
    votes: Counter[int] = Counter()
    for access in accesses:
        volume = math.prod(size for size, stride in zip(space.sizes, access.strides, strict=True) if stride)
        for dim, stride in enumerate(access.strides):
            if stride == 1:
                votes[dim] += volume
    return votes.most_common(1)[0][0] if votes else max(space.columns)


def _ordered(space: RowSpace, dims: Sequence[int], accesses: Sequence[RowAccess]) -> tuple[tuple[int, ...], ...]:
    """Merges dimensions into axes, those with the largest strides outermost."""
    order = sorted(dims, key=lambda dim: (-sum(access.strides[dim] for access in accesses), dim))
    runs: list[list[int]] = []
    for dim in (dim for dim in order if space.sizes[dim] > 1):
        if runs and all(_is_even(space, access, runs[-1][-1], dim) for access in accesses):
            runs[-1].append(dim)
        else:
            runs.append([dim])
    return tuple(map(tuple, runs)) or (tuple(order[-1:]),)


def _is_even(space: RowSpace, access: RowAccess, outer: int, inner: int) -> bool:
    return access.strides[outer] == access.strides[inner] * space.sizes[inner]


def _lanes(space: RowSpace, axis: Sequence[int], accesses: Sequence[RowAccess]) -> int:
    """Returns the number of elements per access, up to 16 bytes, so that accesses are aligned and in bounds."""
    along = [access for access in accesses if access.strides[axis[-1]] == 1]
    width = min((element_bytes(access.element) for access in along), default=ACCESS_BYTES)
    lanes = min(_MOST_LANES, ACCESS_BYTES // width)
    others = [stride for access in along for dim, stride in enumerate(access.strides) if dim not in axis]
    aligned = [access.alignment // element_bytes(access.element) for access in along]
    return math.gcd(lanes, space.extent(axis), *others, *aligned, *(access.offset for access in along))


def element_bytes(element: ir.Type) -> int:
    """Returns the size of an element in memory, in bytes."""
    if isinstance(element, (ir.IntegerType, ir.FloatType)):
        return max(1, element.width // 8)
    return 8
