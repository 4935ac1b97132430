"""Copies between the prefixes of dense tensors, as the driver performs them: boxes of at most three dimensions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

_DIMS = 2
"""Number of dimensions of a driver's box besides its rows."""


@dataclass(frozen=True)
class BoxPosition:
    """Position of a box in a tensor.

    Attributes:
        offset: byte offset of its first row.
        pitch: distance of rows in bytes.
        rows: distance of planes in rows.
    """

    offset: int
    pitch: int
    rows: int


@dataclass(frozen=True)
class BoxCopy:
    """One copy by the driver.

    Attributes:
        source: position in the source tensor.
        target: position in the target tensor.
        width: bytes per row.
        height: rows per plane.
        depth: number of planes.
    """

    source: BoxPosition
    target: BoxPosition
    width: int
    height: int
    depth: int


def boxes(source: Sequence[int], target: Sequence[int], itemsize: int) -> list[BoxCopy]:
    """Returns the copies that transfer the common prefix of two dense tensors from one to the other.

    Args:
        source: shape of the source.
        target: shape of the target, of the same rank.
        itemsize: bytes per element.
    """
    if 0 in source or 0 in target:
        return []
    merged = _merged(source, target)
    extents = [min(pair) for pair in merged]
    shapes = [[pair[side] for pair in merged] for side in (0, 1)]
    # The innermost dimension is a row; the box has the two dimensions around it; a loop covers the others.
    outer = max(0, len(merged) - 1 - _DIMS)
    height, depth = [*extents[outer:-1][::-1], 1, 1][:_DIMS]
    found = []
    for indices in itertools.product(*map(range, extents[:outer])):
        read, written = (_side(shape, indices, itemsize) for shape in shapes)
        found.append(BoxCopy(read, written, extents[-1] * itemsize, height, depth))
    return found


def _merged(source: Sequence[int], target: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the extents of both tensors, with dimensions merged that are contiguous in both."""
    merged: list[tuple[int, int]] = [(1, 1)]
    for pair in zip(source, target, strict=True):
        outer = merged[-1]
        if pair[0] == pair[1] or outer == (1, 1):
            merged[-1] = outer[0] * pair[0], outer[1] * pair[1]
        else:
            merged.append(pair)
    return merged


def _side(shape: Sequence[int], indices: Sequence[int], itemsize: int) -> BoxPosition:
    offset = sum(index * math.prod(shape[axis + 1 :]) for axis, index in enumerate(indices))
    rows = shape[-2] if len(shape) > len(indices) + 1 else 1
    return BoxPosition(offset * itemsize, shape[-1] * itemsize, rows)
