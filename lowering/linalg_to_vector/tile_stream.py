"""What a tile's epilogue reads and writes, on its way to the cache while the tile's sums are computed.

%sums = scf.for %k .. { .. }
%0 = read %residual[tile]; write %out[tile]
// -->
%sums = scf.for %k .. { ..; memref.prefetch %residual[row %k of the tile], %out[row %k of the tile] }
%0 = read %residual[tile]; write %out[tile]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import affine, bufferization, linalg, memref

from ...dialects.types import numpy_dtype
from .linear_forms import Linear, apply_linear
from .slices import shape_of, whole

_LINE_BYTES = 64

# A smaller tensor is in the cache anyway.
_LEAST_BYTES = 512 * 1024

# After so many steps of a reduction it does not matter how long the epilogue waits.
_MOST_STEPS = 1024

# And after so many, not for what the tile only writes: stores wait beside the next tile.
_MOST_STEPS_BEFORE_WRITING = 256

_FIRST_LEVEL = 3


@dataclass(frozen=True)
class TileStream:
    """A tensor of which a tile reads or writes its part.

    Attributes:
        memory: the whole tensor.
        offsets: where the part begins.
        part: the extents of the part; the last but one is 1, the last is contiguous.
        line: the elements of a cache line.
        rows: how many rows of the part one iteration of the tile's reduction loop fetches.
        is_written: whether the part is written.
    """

    memory: ir.Value
    offsets: Sequence[Linear]
    part: Sequence[int]
    line: int
    rows: int
    is_written: bool

    def fetch(self, iteration: Linear) -> None:
        """Fetches the rows of one iteration, and in those after the last row that again."""
        count = math.prod(self.part[:-1])
        base, terms = iteration
        for number in range(self.rows):
            row = apply_linear((base * self.rows + number, tuple((item, self.rows * by) for item, by in terms)))
            bounds = [ir.AffineExpr.get_dim(0), ir.AffineExpr.get_constant(count - 1)]
            row = affine.AffineMinOp(ir.AffineMapAttr.get(ir.AffineMap.get(1, 0, bounds)), [row]).result
            for column in range(0, self.part[-1], self.line):
                indices = [apply_linear(place) for place in self._places(row, column)]
                memref.prefetch(self.memory, indices, self.is_written, _FIRST_LEVEL, True)

    def _places(self, row: ir.Value, column: int) -> list[Linear]:
        """Where a row of the part is, the rows being counted over all dimensions but the last."""
        places: list[Linear] = []
        inner = count = math.prod(self.part[:-1])
        for size, (base, terms) in zip(self.part[:-1], self.offsets[:-1], strict=True):
            inner //= size
            expr = ir.AffineExpr.get_floor_div(ir.AffineExpr.get_dim(0), inner)
            expr = expr if inner * size == count else ir.AffineExpr.get_mod(expr, size)
            place = affine.apply(ir.AffineMap.get(1, 0, [expr]), [row])
            places.append((base, (*terms, (place, 1)) if size > 1 else terms))
        base, terms = self.offsets[-1]
        return [*places, (base + column, terms)]


def tile_streams(contraction: linalg.GenericOp, steps: int, iterations: int) -> list[TileStream]:
    """What the epilogue of the contraction at the insertion point reads and writes, so far as it is worth fetching.

    Args:
        contraction: the op, on a tile.
        steps: how many steps its reduction has.
        iterations: in how many iterations of its loop.
    """
    if steps > _MOST_STEPS:
        return []
    root = _root(contraction)
    *read, written = root.operands
    wanted = [(operand, False) for operand in read if root != contraction]
    if steps <= _MOST_STEPS_BEFORE_WRITING:
        wanted.append((_unfilled(written), True))
    streams = []
    for operand, is_written in wanted:
        if operand == contraction.results[0] or shape_of(operand) != shape_of(contraction.results[0]):
            continue
        source, offsets = whole(operand)
        kind = ir.RankedTensorType(source.type)
        size = numpy_dtype(kind.element_type).itemsize
        if math.prod(shape_of(_carried(source))) * size < _LEAST_BYTES:
            continue
        layout = ir.StridedLayoutAttr.get_fully_dynamic(kind.rank)
        memory = bufferization.to_buffer(
            ir.MemRefType.get(kind.shape, kind.element_type, layout), source, read_only=True
        )
        part = shape_of(operand)
        rows = -(-math.prod(part[:-1]) // iterations)
        streams.append(TileStream(memory, offsets, part, _LINE_BYTES // size, rows, is_written))
    return streams


def _unfilled(tile: ir.Value) -> ir.Value:
    """The tile that sums start from, before it was filled: of that, memory is nothing yet."""
    if isinstance(tile.owner, ir.Block) or tile.owner.name != "linalg.fill":
        return tile
    return tile.owner.operands[1]


def _carried(value: ir.Value) -> ir.Value:
    """The tensor that loops around carry, of which they hand in `value` or a slice."""
    while True:
        if not isinstance(value.owner, ir.Block):
            if value.owner.name != "tensor.extract_slice":
                return value
            value = value.owner.operands[0]
            continue
        loop, position = value.owner.owner.operation, ir.BlockArgument(value).arg_number
        inputs, skipped = len(loop.operands) - len(loop.results), len(value.owner.arguments) - len(loop.results)
        if loop.name not in ("scf.for", "scf.forall") or position < skipped:
            return value
        value = loop.operands[inputs + position - skipped]


def _root(contraction: linalg.GenericOp) -> linalg.GenericOp:
    """The op that works on the sums, if there is one."""
    for use in contraction.results[0].uses:
        if isinstance(use.owner, linalg.GenericOp):
            return use.owner
    return contraction
