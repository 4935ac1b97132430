"""Input transform as vector code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, scf, vector

from ....passes.ir.values import shape_of
from ...builders.indices import Index, add, clamp, multiply, subtract, value_of
from ..tile_reads import Chunk, Indexing, linear_form
from .walk import Matrices, along, apply_both, grid, matrices_of, read_row, write_row


@dataclass(frozen=True)
class InputTransform:
    """Emits the transform of a block of tiles.

    Attributes:
        image: image without padding, [N, H, W, C].
        start: image, row and column of the first pixel in it, which may be outside.
        margins: rows and columns of padding before and after the image.
        matrices: B^T along rows and columns.
        tile: distance between neighbouring tiles in pixels, along rows and columns.
        target: destination of the transformed tiles, [x, y, h, w, c].
        lanes: elements per vector.
    """

    image: ir.Value
    start: tuple[Index, Index, Index]
    margins: tuple[tuple[int, int], tuple[int, int]]
    matrices: Matrices
    tile: tuple[int, int]
    target: ir.Value
    lanes: int

    @staticmethod
    def of(op: ir.Operation, lanes: int) -> InputTransform:
        window = op.operands[0].owner.operation
        source, (image, *pixels, _) = window.operands[0], _offsets(window)
        margins = ((0, 0), (0, 0))
        if not isinstance(source.owner, ir.Block) and source.owner.name == "tensor.pad":
            pad = source.owner
            low, high = (list(ir.DenseI64ArrayAttr(pad.attributes[name])) for name in ("static_low", "static_high"))
            margins = ((low[1], high[1]), (low[2], high[2]))
            source = pad.operands[0]
        first = (image, subtract(pixels[0], margins[0][0]), subtract(pixels[1], margins[1][0]))
        return InputTransform(source, first, margins, matrices_of(op), _distances(op), _filled(op.operands[3]), lanes)

    def emit(self) -> ir.Value:
        _, _, rows, cols, _ = shape_of(self.target)

        def tile(row: Index, col: Index, target: ir.Value) -> ir.Value:
            top = add(self.start[1], multiply(row, self.tile[0]))
            left = add(self.start[2], multiply(col, self.tile[1]))
            return self._tile(top, left, (row, col), target)

        return grid(rows, cols, self.target, tile)

    def _tile(self, top: Index, left: Index, position: tuple[Index, Index], target: ir.Value) -> ir.Value:
        tests = [*self._tests(0, top), *self._tests(1, left)]
        if not tests:
            return self._channels(functools.partial(self._read, top, left), position, target)
        branch = scf.IfOp(functools.reduce(arith.andi, tests), [target.type], has_else=True)
        inside, outside = (region.blocks[0] for region in branch.regions)
        with ir.InsertionPoint(inside):
            scf.YieldOp([self._channels(functools.partial(self._read, top, left), position, target)])
        with ir.InsertionPoint(outside):
            scf.YieldOp([self._channels(self._guarded(top, left), position, target)])
        return branch.results[0]

    def _tests(self, dim: int, first: Index) -> list[ir.Value]:
        """Returns the conditions under which the pixels of a tile are inside; empty if they always are."""
        low, high = self.margins[dim]
        last = shape_of(self.image)[dim + 1] - len(self.matrices[dim])
        tests = [arith.cmpi(arith.CmpIPredicate.sge, value_of(first), value_of(0))] if low else []
        return [*tests, *([arith.cmpi(arith.CmpIPredicate.sle, value_of(first), value_of(last))] if high else [])]

    def _guarded(self, top: Index, left: Index) -> Callable[[int, int, Index, Chunk], ir.Value]:
        """Returns a function that reads pixels, with 0 outside: it reads the nearest pixel and clears all its bits."""
        rows, cols = (
            [self._pixel(dim, add(first, step)) for step in range(len(self.matrices[dim]))]
            for dim, first in enumerate((top, left))
        )
        masks = [[arith.andi(row[1], col[1]) for col in cols] for row in rows]
        bits = ir.IntegerType.get_signless(32)

        def read(i: int, j: int, channel: Index, chunk: Chunk) -> ir.Value:
            pixel = read_row(self.image, [self.start[0], rows[i][0], cols[j][0], channel], chunk)
            mask = vector.broadcast(chunk.type(bits), masks[i][j])
            return arith.bitcast(pixel.type, arith.andi(arith.bitcast(mask.type, pixel), mask))

        return read

    def _pixel(self, dim: int, index: Index) -> tuple[Index, ir.Value]:
        """Returns the nearest index inside, and whether it is `index` itself, as an integer with all bits equal."""
        inside = clamp(index, 0, shape_of(self.image)[dim + 1] - 1)
        is_inside = arith.cmpi(arith.CmpIPredicate.eq, value_of(inside), value_of(index))
        return inside, arith.extsi(ir.IntegerType.get_signless(32), is_inside)

    def _read(self, top: Index, left: Index, i: int, j: int, channel: Index, chunk: Chunk) -> ir.Value:
        return read_row(self.image, [self.start[0], add(top, i), add(left, j), channel], chunk)

    def _channels(
        self,
        read: Callable[[int, int, Index, Chunk], ir.Value],
        position: tuple[Index, Index],
        target: ir.Value,
    ) -> ir.Value:
        down, across = (range(len(matrix)) for matrix in self.matrices)

        def transform(channel: Index, chunk: Chunk, into: ir.Value) -> ir.Value:
            pixels = [[read(i, j, channel, chunk) for j in across] for i in down]
            for (x, y), value in apply_both(self.matrices, pixels):
                into = write_row(value, into, [x, y, *position, channel], chunk)
            return into

        return along(shape_of(target)[-1], self.lanes, target, transform)


def _distances(op: ir.Operation) -> tuple[int, int]:
    """Returns the pixels between neighbouring tiles: the factors of their numbers in the pixels that a transform reads.

    The loops of the transform are the points x and y, rows, columns, channels, and the pixels i and j of a tile.
    """
    down, across, _ = Indexing(op).exprs[0]
    zeros: dict[int, int | ir.Value] = dict.fromkeys(range(7), 0)
    rows, cols = (linear_form(expr, zeros | {dim: 1})[0] for expr, dim in ((down, 2), (across, 3)))
    return rows, cols


def _filled(value: ir.Value) -> ir.Value:
    """Returns the tensor that a linalg.fill fills: every element is overwritten anyway."""
    return value.owner.operands[1] if value.owner.name == "linalg.fill" else value


def _offsets(op: ir.Operation) -> list[Index]:
    """Returns the offsets of a tensor.extract_slice."""
    sizes = list(ir.DenseI64ArrayAttr(op.attributes["static_offsets"]))
    values = iter(list(op.operands)[1:])
    return [next(values) if ir.ShapedType.is_dynamic_size(size) else size for size in sizes]
