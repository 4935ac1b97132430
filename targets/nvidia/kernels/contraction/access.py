"""Addressing of a contraction's operand by (batch, row, depth).

A row is an index that the operand shares with the result (m of the left-hand side, n of the right-hand side); a depth
is an index that is summed over. Each of the three linearises several dimensions of the contraction. The offset is

    offset(batch, row, depth) = start + outer(batch) + along_rows(row) + along_depth(depth)

The offset is separable because index expressions are affine: of a convolution's `out * stride + tap * dilation`, one
term belongs to the row and one to the depth. For a padded operand, the same sums give an index that must be in bounds
(`IndexGuard`); elements out of bounds read as zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith

from ...instructions.integers import Int, constant


@dataclass(frozen=True)
class Dim:
    """Dimension of the contraction, as it appears in an operand.

    Attributes:
        size: extent of the dimension.
        stride: distance of neighbours in elements.
        moves: for each guard, the change of the guarded index per step along this dimension.
    """

    size: int
    stride: int
    moves: tuple[int, ...] = ()


@dataclass(frozen=True)
class IndexGuard:
    """An index, starting at `start`, that must lie in [0, size)."""

    start: int
    size: int


@dataclass(frozen=True)
class ElementOffset:
    """Part of an element's address: an offset in elements, and a part of every guarded index."""

    offset: Int
    guarded: tuple[Int, ...] = ()

    def __add__(self, other: ElementOffset) -> ElementOffset:
        pairs = zip(self.guarded, other.guarded, strict=True)
        return ElementOffset(self.offset + other.offset, tuple(mine + its for mine, its in pairs))


@dataclass(frozen=True)
class OperandAccess:
    """Access function of an operand.

    Attributes:
        element_bytes: size of an element in memory.
        batch: dimensions shared with the other operand and the result.
        rows: dimensions shared with the result only.
        depth: dimensions that are summed over.
        start: offset of the first element.
        guards: bounds that an index must satisfy to be read.
        alignment: alignment of the address of element 0 in bytes.
    """

    element_bytes: int
    batch: tuple[Dim, ...]
    rows: tuple[Dim, ...]
    depth: tuple[Dim, ...]
    start: int = 0
    guards: tuple[IndexGuard, ...] = ()
    alignment: int = 16

    @staticmethod
    def matrix(
        element_bytes: int, rows: int, depth: int, transposed: bool = False, batch: int = 1, pitch: int | None = None
    ) -> OperandAccess:
        """Returns an access to [batch, rows, depth] (transposed: [batch, depth, rows]); lines are `pitch` apart."""
        outer, inner = (depth, rows) if transposed else (rows, depth)
        pitch = pitch or inner
        strides = (1, pitch) if transposed else (pitch, 1)
        matrices, lines, columns = Dim(batch, outer * pitch), Dim(rows, strides[0]), Dim(depth, strides[1])
        return OperandAccess(element_bytes, merged([matrices]), merged([lines]), merged([columns]))

    @property
    def by_depth(self) -> bool:
        """True if neighbours in memory are neighbours in depth rather than rows."""
        if self.depth and self.depth[-1].stride == 1:
            return True
        return not (self.rows and self.rows[-1].stride == 1)

    @property
    def vector(self) -> int:
        """Number of elements, up to 16 bytes, that one access can always read."""
        dims = self.depth if self.by_depth else self.rows
        if not dims or dims[-1].stride != 1 or any(dims[-1].moves):
            return 1
        others = [*self.batch, *self.rows, *self.depth]
        steps = [dim.stride for dim in others if dim is not dims[-1]]
        most = math.gcd(16, self.alignment) // self.element_bytes
        return math.gcd(most, dims[-1].size, self.start, *steps)

    def place(self, dims: Sequence[Dim], number: Int) -> ElementOffset:
        """Returns the contribution of one linearised index over `dims` to an element's place."""
        offset, guarded = Int(0), [Int(0) for _ in self.guards]
        for position, dim in reversed(list(enumerate(dims))):
            coordinate = number % dim.size if position else number
            number = number // dim.size if position else number
            offset += coordinate * dim.stride
            guarded = [part + coordinate * move for part, move in zip(guarded, dim.moves, strict=True)]
        return ElementOffset(offset, tuple(guarded))

    def far(self, number: Int) -> ir.Value:
        """Returns the offset of a batch element as an i64, since it may exceed 32 bits."""
        offset = constant(self.start, 64)
        for position, dim in reversed(list(enumerate(self.batch))):
            coordinate = number % dim.size if position else number
            number = number // dim.size if position else number
            offset = arith.addi(offset, arith.muli(coordinate.wide(), constant(dim.stride, 64)))
        return offset

    def origin(self) -> ElementOffset:
        """Returns the place of the first element."""
        return ElementOffset(Int(self.start), tuple(Int(guard.start) for guard in self.guards))

    def inside(self, place: ElementOffset) -> list[ir.Value]:
        """Returns the conditions under which an element is read; otherwise it is zero."""
        return [part.below(guard.size) for part, guard in zip(place.guarded, self.guards, strict=True)]

    def simplified(self) -> OperandAccess:
        """Returns the same access with neighbouring dimensions merged if one stride covers both."""
        parts = {name: merged(getattr(self, name)) for name in ("batch", "rows", "depth")}
        return replace(self, **parts)


def count(dims: Sequence[Dim]) -> int:
    """Returns the number of elements that the dimensions span."""
    return math.prod(dim.size for dim in dims)


def merged(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """Drops dimensions of size 1 and merges neighbours that one stride covers."""
    kept: list[Dim] = []
    for dim in dims:
        if dim.size == 1:
            continue
        if kept and _continues(kept[-1], dim):
            dim = replace(dim, size=kept.pop().size * dim.size)
        kept.append(dim)
    return tuple(kept)


def _continues(outer: Dim, inner: Dim) -> bool:
    moves = zip(outer.moves, inner.moves, strict=True)
    return outer.stride == inner.size * inner.stride and all(far == inner.size * near for far, near in moves)
