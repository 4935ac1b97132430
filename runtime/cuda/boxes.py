"""Copies between the prefixes of dense tensors, as the driver makes them: boxes of at most three dimensions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

_DIMS = 2
"""So many dimensions around its rows a box of the driver's has."""


@dataclass(frozen=True)
class Side:
    """Where a box lies in a tensor.

    Attributes:
        offset: the bytes before its first row.
        pitch: the bytes from row to row.
        rows: the rows from plane to plane.
    """

    offset: int
    pitch: int
    rows: int


@dataclass(frozen=True)
class Box:
    """One copy of the driver's.

    Attributes:
        source: where it is read.
        target: where it is written.
        width: the bytes of a row.
        height: the rows of a plane.
        depth: the planes.
    """

    source: Side
    target: Side
    width: int
    height: int
    depth: int


def boxes(source: Sequence[int], target: Sequence[int], itemsize: int) -> list[Box]:
    """The copies that bring what two dense tensors both have from one to the other.

    Args:
        source: the shape of what is read.
        target: the shape of what is written, of the same rank.
        itemsize: the bytes of an element.
    """
    if 0 in source or 0 in target:
        return []
    merged = _merged(source, target)
    extents = [min(pair) for pair in merged]
    shapes = [[pair[side] for pair in merged] for side in (0, 1)]
    # The innermost dimension is a row, the two around it are the driver's, and those around these a loop.
    outer = max(0, len(merged) - 1 - _DIMS)
    height, depth = [*extents[outer:-1][::-1], 1, 1][:_DIMS]
    found = []
    for indices in itertools.product(*map(range, extents[:outer])):
        read, written = (_side(shape, indices, itemsize) for shape in shapes)
        found.append(Box(read, written, extents[-1] * itemsize, height, depth))
    return found


def _merged(source: Sequence[int], target: Sequence[int]) -> list[tuple[int, int]]:
    """The extents of both, with whatever lies side by side in both as one dimension."""
    merged: list[tuple[int, int]] = [(1, 1)]
    for pair in zip(source, target, strict=True):
        outer = merged[-1]
        if pair[0] == pair[1] or outer == (1, 1):
            merged[-1] = outer[0] * pair[0], outer[1] * pair[1]
        else:
            merged.append(pair)
    return merged


def _side(shape: Sequence[int], indices: Sequence[int], itemsize: int) -> Side:
    offset = sum(index * math.prod(shape[axis + 1 :]) for axis, index in enumerate(indices))
    rows = shape[-2] if len(shape) > len(indices) + 1 else 1
    return Side(offset * itemsize, shape[-1] * itemsize, rows)
