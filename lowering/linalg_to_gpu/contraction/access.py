"""Where the elements of an operand of a contraction lie, as a function of (batch, row, depth).

A row is an index of the result that the operand has (m of the left-hand side, n of the right-hand side), a depth one
that is summed over. Each of the three is several dimensions of the contraction, linearised; an element's offset is

    offset(batch, row, depth) = start + outer(batch) + along_rows(row) + along_depth(depth)

for index expressions are affine: of a convolution, `out * stride + tap * dilation` is part of a row, part of a depth.
Where the operand is padded, the same sums give the index that must lie inside (`Guard`); elsewhere it reads as zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith

from ..integers import Int, constant


@dataclass(frozen=True)
class Dim:
    """A dimension of the contraction, as an operand sees it.

    Attributes:
        size: its size.
        stride: the elements between neighbours.
        moves: for each guard, by how much a step along this dimension moves the guarded index.
    """

    size: int
    stride: int
    moves: tuple[int, ...] = ()


@dataclass(frozen=True)
class Guard:
    """An index, starting at `start`, that must lie in [0, size)."""

    start: int
    size: int


@dataclass(frozen=True)
class Place:
    """A part of an element's address: its offset in elements, and its part of every guarded index."""

    offset: Int
    guarded: tuple[Int, ...] = ()

    def __add__(self, other: Place) -> Place:
        pairs = zip(self.guarded, other.guarded, strict=True)
        return Place(self.offset + other.offset, tuple(mine + its for mine, its in pairs))


@dataclass(frozen=True)
class Access:
    """How an operand is read.

    Attributes:
        element_bytes: the size of an element in memory.
        batch: the dimensions that it shares with the other operand and the result.
        rows: the dimensions that only it shares with the result.
        depth: the dimensions that are summed over.
        start: the offset of the first element.
        guards: what must hold of an index to be read.
        alignment: what the address of element 0 is a multiple of, in bytes.
    """

    element_bytes: int
    batch: tuple[Dim, ...]
    rows: tuple[Dim, ...]
    depth: tuple[Dim, ...]
    start: int = 0
    guards: tuple[Guard, ...] = ()
    alignment: int = 16

    @staticmethod
    def matrix(
        element_bytes: int, rows: int, depth: int, transposed: bool = False, batch: int = 1, pitch: int | None = None
    ) -> Access:
        """A matrix [batch, rows, depth], or [batch, depth, rows] if transposed, of lines `pitch` elements apart."""
        outer, inner = (depth, rows) if transposed else (rows, depth)
        pitch = pitch or inner
        strides = (1, pitch) if transposed else (pitch, 1)
        matrices, lines, columns = Dim(batch, outer * pitch), Dim(rows, strides[0]), Dim(depth, strides[1])
        return Access(element_bytes, merged([matrices]), merged([lines]), merged([columns]))

    @property
    def by_depth(self) -> bool:
        """Whether neighbours in memory are neighbours in depth rather than rows."""
        if self.depth and self.depth[-1].stride == 1:
            return True
        return not (self.rows and self.rows[-1].stride == 1)

    @property
    def vector(self) -> int:
        """How many elements, up to 16 bytes, can always be read at once."""
        dims = self.depth if self.by_depth else self.rows
        if not dims or dims[-1].stride != 1 or any(dims[-1].moves):
            return 1
        others = [*self.batch, *self.rows, *self.depth]
        steps = [dim.stride for dim in others if dim is not dims[-1]]
        most = math.gcd(16, self.alignment) // self.element_bytes
        return math.gcd(most, dims[-1].size, self.start, *steps)

    def place(self, dims: Sequence[Dim], number: Int) -> Place:
        """The part of an element's place that the dimensions give for one linearised index."""
        offset, guarded = Int(0), [Int(0) for _ in self.guards]
        for position, dim in reversed(list(enumerate(dims))):
            coordinate = number % dim.size if position else number
            number = number // dim.size if position else number
            offset += coordinate * dim.stride
            guarded = [part + coordinate * move for part, move in zip(guarded, dim.moves, strict=True)]
        return Place(offset, tuple(guarded))

    def far(self, number: Int) -> ir.Value:
        """The offset of an element of the batch as an i64: 32 bits may not count so far."""
        offset = constant(self.start, 64)
        for position, dim in reversed(list(enumerate(self.batch))):
            coordinate = number % dim.size if position else number
            number = number // dim.size if position else number
            offset = arith.addi(offset, arith.muli(coordinate.wide(), constant(dim.stride, 64)))
        return offset

    def origin(self) -> Place:
        """The place of the first element."""
        return Place(Int(self.start), tuple(Int(guard.start) for guard in self.guards))

    def inside(self, place: Place) -> list[ir.Value]:
        """What must hold for an element to be read rather than be zero."""
        return [part.below(guard.size) for part, guard in zip(place.guarded, self.guards, strict=True)]

    def simplified(self) -> Access:
        """The same with neighbouring dimensions merged where one index does for both."""
        parts = {name: merged(getattr(self, name)) for name in ("batch", "rows", "depth")}
        return replace(self, **parts)


def count(dims: Sequence[Dim]) -> int:
    """How many elements the dimensions span."""
    return math.prod(dim.size for dim in dims)


def merged(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """Dimensions without those of size 1, and with neighbours merged that one stride serves."""
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
