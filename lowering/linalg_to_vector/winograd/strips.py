"""Cuts the steps of a Winograd convolution into strips of tiles and their parallel blocks.

A strip is a rectangle of tiles. If the sizes of images vary, a strip is a number of consecutive tiles in row-major
order instead, which may begin in one row and end in another: only the last strip of a call overlaps with the one
before.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, linalg, scf, tensor

from ....dialects import discardable
from ....passes.ir.functions import computed_extents
from ....passes.ir.values import shape_of
from ...builders.generics import constant, zero_of
from ...builders.indices import (
    Index,
    add,
    at_least,
    at_most,
    ceil_divide,
    divide,
    loop,
    multiply,
    subtract,
    value_of,
)
from ...builders.spaces import collapse, expand
from ...stepwell_to_linalg.products import emit_contraction
from ...stepwell_to_linalg.winograd import twice_transformed
from .steps import WinogradGroup, WinogradSteps

Locate = Callable[[Index, Index, Index], tuple[list[Index], list[Index]]]


def cut_into_strips(kernel: ir.Operation, steps: WinogradSteps, strip: Sequence[int], part: Sequence[int]) -> None:
    """Replaces the body of a kernel by a parallel loop over strips that contains the steps.

    Args:
        kernel: the kernel, as it was lowered to linalg.
        steps: its ops.
        strip: images, and rows and columns of tiles, of a strip; several images only if the tiles are all of an image.
        part: rows and columns of tiles of a parallel block of the transforms; not used if sizes vary.
    """
    block = kernel.regions[0].blocks[0]
    old = [op.operation for op in block.operations]
    destination = block.arguments[len(block.arguments) - 1]
    with steps.input.location, ir.InsertionPoint(old[-1]):
        if varies(kernel):
            live = _live_tiles(kernel, steps, destination)
            old[-1].operands[0] = _for_each_run(steps, math.prod(strip), live, destination)
        else:
            old[-1].operands[0] = _for_each_strip(steps, strip, part, destination)
    for op in reversed(old[:-1]):
        if not any(True for value in op.results for _ in value.uses):
            op.erase()


def varies(kernel: ir.Operation) -> bool:
    """Returns whether the number of tiles of an image varies."""
    return max(computed_extents(kernel)[1:3], default=-1) >= 0


def _live_tiles(kernel: ir.Operation, steps: WinogradSteps, destination: ir.Value) -> list[Index]:
    """Emits the number of images, and of rows and columns of tiles, that a call computes."""
    arguments = kernel.regions[0].blocks[0].arguments
    found: list[Index] = []
    for end, size, tile in zip(computed_extents(kernel), shape_of(destination), (1, *steps.tile), strict=False):
        extent: Index = size
        if end >= 0:
            table = arguments[discardable.TABLE_ARGUMENT.required(kernel)]
            number = tensor.extract(table, [value_of(end)])
            extent = at_most(arith.index_cast(ir.IndexType.get(), number), size)
        found.append(ceil_divide(extent, tile))
    return found


def _for_each_run(steps: WinogradSteps, count: int, live: Sequence[Index], destination: ir.Value) -> ir.Value:
    """Returns the destination with the results of all strips, each of `count` consecutive tiles."""
    _, height, width, columns = shape_of(destination)
    total = functools.reduce(multiply, live)
    op = scf.ForallOp([0], [math.prod(steps.tiles)], [count], [destination])
    discardable.TILES.write(op, [1, *steps.tile, columns])
    with ir.InsertionPoint(op.body):
        start = at_least(at_most(op.induction_variables[0], subtract(total, count)), 0)
        strip = _Run(steps, (start, 0, 0), (1, 1, count), (1, 1), (height, width), live, at_most(total, count))
        target = op.inner_iter_args[0]
        results = strip.emit(target)
        end = scf.InParallelOp()
        with ir.InsertionPoint(end.block):
            tensor.parallel_insert_slice(results, target, *_mixed([0] * 4, shape_of(destination)))
    return op.results[0]


def _for_each_strip(steps: WinogradSteps, strip: Sequence[int], part: Sequence[int], destination: ir.Value) -> ir.Value:
    """Returns the destination with the results of all strips; there is no loop around a single strip."""
    extents, step = list(steps.tiles), list(strip)
    _, height, width, _ = shape = shape_of(destination)
    if extents == step:
        return _Strip(steps, (0, 0, 0), strip, part, (height, width)).emit(destination)
    op = scf.ForallOp([0, 0, 0], extents, step, [destination])
    with ir.InsertionPoint(op.body):
        starts = [
            0 if extent == size else at_most(index, extent - size)
            for index, extent, size in zip(op.induction_variables, extents, step, strict=True)
        ]
        own = _Strip(steps, (starts[0], starts[1], starts[2]), strip, part, (height, width))
        offsets = [starts[0], own.pixel(0, 0), own.pixel(1, 0), 0]
        sizes = [strip[0], *(own.extent(dim, offset, strip[1:]) for dim, offset in enumerate(offsets[1:3])), shape[3]]
        target = op.inner_iter_args[0]
        results = own.emit(_slice(target, offsets, sizes))
        end = scf.InParallelOp()
        with ir.InsertionPoint(end.block):
            tensor.parallel_insert_slice(results, target, *_mixed(offsets, sizes))
    return op.results[0]


@dataclass(frozen=True)
class _Strip:
    """Emits the steps for the tiles of one strip at image, row and column `start`, in images of `size` pixels.

    The rows of tiles of all images of a strip are one dimension of its values.
    """

    steps: WinogradSteps
    start: tuple[Index, Index, Index]
    strip: Sequence[int]
    part: Sequence[int]
    size: tuple[int, int]

    def emit(self, out: ir.Value) -> ir.Value:
        """Returns the strip's part `out` of the destination with its results."""
        inputs = self._inputs()
        column = 0
        for group in self.steps.groups:
            out = self._outputs(group, self._products(group, inputs), column, out)
            column += group.width
        return out

    def _inputs(self) -> ir.Value:
        steps, (tall, wide) = self.steps, self.steps.tile
        image, down, across = list(steps.input.operands)[:3]
        points, channels = steps.points, steps.channels
        x, y, h, w, c, i, j = map(ir.AffineExpr.get_dim, range(7))

        def block(number: Index, row: Index, col: Index, into: ir.Value) -> ir.Value:
            pixels = [*self.pixels(number, row, col), 0]
            sizes = [
                size * tile + count - tile for size, tile, count in zip(self.part, steps.tile, points, strict=True)
            ]
            window = _slice(image, pixels, [1, *sizes, channels], dropped=(0,))
            own = _slice(into, [0, 0, self.row(number, row), col, 0], [*points, *self.part, channels])
            where = [h * tall + i, w * wide + j, c]
            return twice_transformed("input", window, where, ((down, [x, i]), (across, [y, j])), own).results[0]

        sizes = [*points, *self.rows_and_columns, channels]
        empty = tensor.EmptyOp(sizes, ir.RankedTensorType(image.type).element_type).result
        extents = [*points, *self.part, channels]
        return self._blocks(empty, block, lambda number, row, col: ([0, 0, self.row(number, row), col, 0], extents))

    def _products(self, group: WinogradGroup, inputs: ir.Value) -> ir.Value:
        points = self.steps.points
        _, _, panels, width = shape_of(group.product.results[0])
        element = ir.RankedTensorType(inputs.type).element_type
        sizes = [math.prod(points), math.prod(self.strip), panels, width]
        filled = linalg.fill(constant(zero_of(element)), outs=[tensor.EmptyOp(sizes, element).result])
        point, place, panel, lane, c = map(ir.AffineExpr.get_dim, range(5))
        flat = collapse(inputs, [[0, 1], [2, 3], [4]])
        weight = [point, panel, c, lane]
        product = emit_contraction(flat, [point, place, c], group.product.operands[1], weight, filled, 1)
        for attribute in (discardable.CONTRACTION, discardable.ROOT):
            attribute.copy(group.product, product)
        merged = collapse(product.results[0], [[0], [1], [2, 3]])
        return expand(expand(merged, 1, self.rows_and_columns), 0, list(points))

    def _outputs(self, group: WinogradGroup, products: ir.Value, column: int, out: ir.Value) -> ir.Value:
        (tall, wide), points = self.steps.tile, self.steps.points
        down, across = group.matrices
        element = ir.RankedTensorType(products.type).element_type
        h, p, w, q, k, x, y = map(ir.AffineExpr.get_dim, range(7))

        def place(number: Index, row: Index, col: Index) -> tuple[list[Index], list[Index]]:
            sizes = [self.extent(dim, pixel, self.part) for dim, pixel in enumerate(self.pixels(number, row, col)[1:])]
            return [*self.target(number, row, col), column], [1, *sizes, group.width]

        def block(number: Index, row: Index, col: Index, into: ir.Value) -> ir.Value:
            offsets, sizes = place(number, row, col)
            own = _slice(products, [0, 0, self.row(number, row), col, 0], [*points, *self.part, group.width])
            whole = tensor.EmptyOp([self.part[0], tall, self.part[1], wide, group.width], element).result
            matrices = ((down, [p, x]), (across, [q, y]))
            results = twice_transformed("output", own, [x, y, h, w, k], matrices, whole).results[0]
            inside = _slice(collapse(results, [[0, 1], [2, 3], [4]]), [0, 0, 0], sizes[1:])
            start = [*self.pixels(number, row, col), 0]
            return _epilogue(group.epilogue, inside, start, sizes, _slice(into, offsets, sizes, (0,)))

        return self._blocks(out, block, place)

    def _blocks(
        self, into: ir.Value, block: Callable[[Index, Index, Index, ir.Value], ir.Value], place: Locate
    ) -> ir.Value:
        """Returns `into` with each result of `block` at the block's `place`, in parallel if there is more than one."""
        step = [1, *self.part]
        if step == list(self.strip):
            return _insert(block(0, 0, 0, into), into, *place(0, 0, 0))
        # There is no loop over the only image.
        first = 0 if self.strip[0] > 1 else 1
        op = scf.ForallOp([0] * (3 - first), list(self.strip[first:]), step[first:], [into])
        with ir.InsertionPoint(op.body):
            indices = [0] * first + list(op.induction_variables)
            number, row, col = (
                at_most(index, size - each) for index, size, each in zip(indices, self.strip, step, strict=True)
            )
            target = op.inner_iter_args[0]
            part = block(number, row, col, target)
            offsets, sizes = place(number, row, col)
            end = scf.InParallelOp()
            with ir.InsertionPoint(end.block):
                tensor.parallel_insert_slice(part, target, *_mixed(offsets, sizes))
        return op.results[0]

    @property
    def rows_and_columns(self) -> list[int]:
        """Rows of tiles of all images, and columns of tiles."""
        images, rows, cols = self.strip
        return [images * rows, cols]

    def row(self, number: Index, row: Index) -> Index:
        """Returns a row of tiles of an image of the strip as one of all its rows."""
        return add(multiply(number, self.strip[1]), row)

    def pixels(self, number: Index, row: Index, col: Index) -> list[Index]:
        """Returns the image, and the row and column of the first pixel, of a tile of the strip."""
        return [add(self.start[0], number), self.pixel(0, row), self.pixel(1, col)]

    def target(self, number: Index, row: Index, col: Index) -> list[Index]:
        """Returns the image, and the row and column of the first pixel, of a tile in the destination of the strip."""
        return [number, multiply(row, self.steps.tile[0]), multiply(col, self.steps.tile[1])]

    def pixel(self, dim: int, tile: Index) -> Index:
        """Returns the first pixel in the image of a row or column of tiles of the strip."""
        return multiply(add(self.start[dim + 1], tile), self.steps.tile[dim])

    def extent(self, dim: int, pixel: Index, tiles: Sequence[int]) -> Index:
        """Returns the number of pixels of the image in `tiles` tiles from `pixel` on."""
        size, most = self.size[dim], tiles[dim] * self.steps.tile[dim]
        return most if size % self.steps.tile[dim] == 0 else at_most(subtract(size, pixel), most)


@dataclass(frozen=True)
class _Run(_Strip):
    """Emits the steps for consecutive tiles of all images, from tile `start[0]` on.

    Attributes:
        live: images, and rows and columns of tiles, of a call.
        number: tiles of the strip, fewer than those of `strip` if a call has not as many.
    """

    live: Sequence[Index]
    number: Index

    def _blocks(
        self, into: ir.Value, block: Callable[[Index, Index, Index, ir.Value], ir.Value], place: Locate
    ) -> ir.Value:
        def tile(index: Index, carried: list[ir.Value]) -> list[ir.Value]:
            return [_insert(block(0, 0, index, carried[0]), carried[0], *place(0, 0, index))]

        return loop(0, self.number, 1, [into], tile)[0]

    def pixels(self, number: Index, row: Index, col: Index) -> list[Index]:
        rest, column = divide(add(self.start[0], col), self.live[2])
        image, line = divide(rest, self.live[1])
        tall, wide = self.steps.tile
        return [image, multiply(line, tall), multiply(column, wide)]

    def target(self, number: Index, row: Index, col: Index) -> list[Index]:
        return self.pixels(number, row, col)


def _epilogue(
    old: ir.Operation, results: ir.Value, start: Sequence[Index], sizes: Sequence[Index], out: ir.Value
) -> ir.Value:
    """Emits the elementwise ops of `old` on a block of the results of one image."""
    maps = [ir.AffineMapAttr.get(ir.AffineMap.get_identity(3))]
    operands = [results]
    entries = [ir.AffineMapAttr(item).value for item in ir.ArrayAttr(old.attributes["indexing_maps"])]
    for value, entry in zip(list(old.operands)[1:-1], entries[1:-1], strict=True):
        dims = [ir.AffineDimExpr(expr).position for expr in entry.results]
        dropped = [axis for axis, dim in enumerate(dims) if dim == 0]
        operands.append(_slice(value, [start[dim] for dim in dims], [sizes[dim] for dim in dims], dropped))
        kept = [ir.AffineExpr.get_dim(dim - 1) for dim in dims if dim]
        maps.append(ir.AffineMapAttr.get(ir.AffineMap.get(3, 0, kept)))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    maps.append(maps[0])
    op = linalg.GenericOp([out.type], operands, [out], ir.ArrayAttr.get(maps), ir.ArrayAttr.get([parallel] * 3))
    before = old.regions[0].blocks[0]
    block = op.regions[0].blocks.append(*(argument.type for argument in before.arguments))
    copies = dict(zip(before.arguments, block.arguments, strict=True))
    with ir.InsertionPoint(block):
        for inner in before.operations:
            clone = inner.operation.clone()
            for position, operand in enumerate(inner.operands):
                clone.operands[position] = copies.get(operand, operand)
            copies.update(zip(inner.results, clone.results, strict=True))
    discardable.WINOGRAD.copy(old, op)
    return op.results[0]


def _slice(value: ir.Value, offsets: Sequence[Index], sizes: Sequence[Index], dropped: Sequence[int] = ()) -> ir.Value:
    """Returns a part of a tensor, without the dimensions `dropped`, whose size is 1."""
    own = ir.RankedTensorType(value.type)
    if not dropped and not any(offsets) and list(sizes) == list(own.shape):
        return value
    dynamic = ir.ShapedType.get_dynamic_size()
    extents = [size if isinstance(size, int) else dynamic for size in sizes]
    kind = ir.RankedTensorType.get([size for axis, size in enumerate(extents) if axis not in dropped], own.element_type)
    return tensor.extract_slice(kind, value, *_mixed(offsets, sizes))


def _insert(part: ir.Value, into: ir.Value, offsets: Sequence[Index], sizes: Sequence[Index]) -> ir.Value:
    if part.type == into.type:
        return part
    return tensor.insert_slice(part, into, *_mixed(offsets, sizes))


def _mixed(offsets: Sequence[Index], sizes: Sequence[Index]) -> tuple:
    """Returns the arguments of slice ops: dynamic offsets, sizes and strides, then the static ones."""
    dynamic = ir.ShapedType.get_dynamic_size()
    values = [[item for item in items if not isinstance(item, int)] for items in (offsets, sizes)]
    numbers = [[item if isinstance(item, int) else dynamic for item in items] for items in (offsets, sizes)]
    return *values, [], *numbers, [1] * len(numbers[0])
