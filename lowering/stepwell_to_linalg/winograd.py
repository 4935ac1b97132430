"""Lowering of kernels around one Winograd convolution: transforms as sums over constant matrices, and products.

%1 = "stepwell.winograd_conv"(%x, %w) {columns = 64, panel = 32, tile = 4, pads = array<i64: 1, 1, 1, 1>}
%2 = "stepwell.add"(%1, %b)
// -->
%image = tensor.pad %x                                       // to whole tiles
%v = linalg.generic {stepwell.winograd = "input"}            // [x, y, n, h, w, c]: B^T image B, tile by tile
%m = linalg.generic {(xy, nhw, panel, lane, c)}              // a product of matrices for each point (x, y)
%r = linalg.generic {stepwell.winograd = "output"}           // [n, h, p, w, q, k]: A^T m A
%2 = linalg.generic {stepwell.winograd = "epilogue"}         // [n, h, w, k], without the overhang of the last tiles
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir
from mlir.dialects import arith, func, linalg, tensor

from ...dialects import discardable
from ...dialects.core import Op
from ...dialects.stepwell.panels import ColumnGroup, column_groups
from ...dialects.stepwell.winograd import WinogradConvOp
from ...dialects.types import dense
from ...passes.ir.values import shape_of
from ..builders.generics import constant, generic, zero_of
from ..builders.spaces import collapse, expand, insert_axis, slice_axis
from .epilogues import Epilogue, lower_around
from .products import emit_contraction, panels_of
from .rules import LINALG_KERNEL, Lowering

_Factor = tuple[ir.Value, Sequence[ir.AffineExpr]]


@LINALG_KERNEL.attach(WinogradConvOp)
def lower_kernel(kernel: func.FuncOp, _lowering: Lowering) -> None:
    """Converts a kernel of stepwell ops to linalg ops that write into a destination argument.

    The kernel is one Winograd convolution, and elementwise ops of the same result shape that follow it.

    Raises:
        PassError: the kernel has another form.
    """
    lower_around(kernel, lambda kind: kind is WinogradConvOp, _lower)


def _lower(anchor: Op, epilogue: Epilogue, destination: ir.Value) -> ir.Value:
    assert isinstance(anchor, WinogradConvOp)
    inputs = _input_transform(anchor)
    for number, group in enumerate(column_groups(anchor.columns, anchor.panel)):
        products = _products(anchor, inputs, group, number)
        results = _output_transform(anchor, products)
        destination = _finish(epilogue, results, group, destination)
    return destination


def _input_transform(op: WinogradConvOp) -> ir.Value:
    """Returns the transformed input, [x, y, n, h, w, c]."""
    tall, wide = op.extents
    batch, _, _, channels = shape_of(op.input)
    rows, cols = (-(-size // tile) for size, tile in zip(shape_of(op.result)[1:3], op.extents, strict=True))
    low = [0, *op.pads[:2], 0]
    whole = [batch, rows * tall + op.kernel[0] - 1, cols * wide + op.kernel[1] - 1, channels]
    high = [size - start - own for size, start, own in zip(whole, low, shape_of(op.input), strict=True)]
    element = ir.RankedTensorType(op.input.type).element_type
    image = _padded(op.input, low, high, element)
    down, across = (_matrix(item.input, element) for item in op.transforms)
    x, y, n, h, w, c, i, j = map(ir.AffineExpr.get_dim, range(8))
    out = tensor.EmptyOp([*op.points, batch, rows, cols, channels], element).result
    where = [n, h * tall + i, w * wide + j, c]
    return twice_transformed("input", image, where, ((down, [x, i]), (across, [y, j])), out).results[0]


def _products(op: WinogradConvOp, inputs: ir.Value, group: ColumnGroup, number: int) -> ir.Value:
    """Returns the products, [x, y, n, h, w, k]."""
    down, across, batch, rows, cols, channels = shape_of(inputs)
    flat = collapse(inputs, [[0, 1], [2, 3, 4], [5]])
    weight = panels_of(op.weight, group, down * across, (channels,))
    element = ir.RankedTensorType(inputs.type).element_type
    sizes = [down * across, batch * rows * cols, group.panels, group.width]
    filled = linalg.fill(constant(zero_of(element)), outs=[tensor.EmptyOp(sizes, element).result])
    point, place, panel, lane, c = map(ir.AffineExpr.get_dim, range(5))
    product = emit_contraction(flat, [point, place, c], weight, [point, panel, c, lane], filled, 1)
    discardable.CONTRACTION.write(product, number)
    discardable.ROOT.write(product, number)
    merged = collapse(product.results[0], [[0], [1], [2, 3]])
    return expand(expand(merged, 1, [batch, rows, cols]), 0, [down, across])


def _output_transform(op: WinogradConvOp, products: ir.Value) -> ir.Value:
    """Returns the transformed products, [n, height, width, k], in whole tiles."""
    element = ir.RankedTensorType(products.type).element_type
    (tall, wide), (down, across) = op.extents, (_matrix(item.output, element) for item in op.transforms)
    _, _, batch, rows, cols, columns = shape_of(products)
    n, h, p, w, q, k, x, y = map(ir.AffineExpr.get_dim, range(8))
    out = tensor.EmptyOp([batch, rows, tall, cols, wide, columns], element).result
    matrices = ((down, [p, x]), (across, [q, y]))
    results = twice_transformed("output", products, [x, y, n, h, w, k], matrices, out).results[0]
    return collapse(results, [[0], [1, 2], [3, 4], [5]])


def _finish(epilogue: Epilogue, results: ir.Value, group: ColumnGroup, destination: ir.Value) -> ir.Value:
    """Emits the elementwise ops on the part of the tiles inside the destination."""
    shape = shape_of(destination)
    inside = slice_axis(slice_axis(results, 1, 0, shape[1]), 2, 0, shape[2])
    tensors = epilogue.tensors
    views = [_view(value, shape, group) for value in tensors]
    identity = ir.AffineMap.get_identity(4)
    maps = [ir.AffineMap.get(4, 0, list(map(ir.AffineExpr.get_dim, dims))) for _, dims in views]
    target = slice_axis(destination, 3, group.start, group.size)
    operands = [inside, *(view for view, _ in views)]
    final = generic(operands, target, [identity, *maps, identity], 4, lambda *scalars: epilogue.body(scalars[:-1]))
    discardable.WINOGRAD.write(final, "epilogue")
    return insert_axis(final.results[0], destination, 3, group.start)


def _view(value: ir.Value, shape: Sequence[int], group: ColumnGroup) -> tuple[ir.Value, list[int]]:
    """Returns an operand of the epilogue without its broadcast dimensions, and those that it keeps."""
    own = shape_of(value)
    shift = len(shape) - len(own)
    kept = [axis for axis, size in enumerate(own) if size != 1]
    flat = collapse(value, [[axis] for axis in kept])
    dims = [axis + shift for axis in kept]
    if dims and dims[-1] == len(shape) - 1:
        flat = slice_axis(flat, len(dims) - 1, group.start, group.size)
    return flat, dims


def twice_transformed(
    step: str, source: ir.Value, source_map: Sequence[ir.AffineExpr], matrices: tuple[_Factor, _Factor], out: ir.Value
) -> linalg.GenericOp:
    """Makes a generic that multiplies `source` by elements of two matrices and sums over the last two dimensions.

    Args:
        step: the tag.
        source: the tensor to transform.
        source_map: its index expressions over the dimensions of `out` and the two summed dimensions.
        matrices: the matrices, each with its index expressions.
        out: the destination; its contents do not matter.
    """
    (down, first), (across, second) = matrices
    rank = len(shape_of(out))
    filled = linalg.fill(constant(zero_of(ir.RankedTensorType(out.type).element_type)), outs=[out])
    dims = [ir.AffineExpr.get_dim(position) for position in range(rank)]
    maps = [ir.AffineMap.get(rank + 2, 0, list(exprs)) for exprs in (source_map, first, second, dims)]

    def body(item: ir.Value, left: ir.Value, right: ir.Value, total: ir.Value) -> ir.Value:
        return arith.addf(total, arith.mulf(arith.mulf(item, left), right))

    op = generic([source, down, across], filled, maps, rank, body)
    discardable.WINOGRAD.write(op, step)
    return op


def _matrix(values: np.ndarray, element: ir.Type) -> ir.Value:
    kind = ir.RankedTensorType.get(values.shape, element)
    return arith.constant(kind, dense(values.astype(np.float32)))


def _padded(value: ir.Value, low: Sequence[int], high: Sequence[int], element: ir.Type) -> ir.Value:
    if not any(low) and not any(high):
        return value
    sizes = [before + own + after for before, own, after in zip(low, shape_of(value), high, strict=True)]
    kind = ir.RankedTensorType.get(sizes, element)
    op = tensor.PadOp(kind, value, [], [], list(low), list(high))
    block = op.regions[0].blocks.append(*([ir.IndexType.get()] * len(sizes)))
    with ir.InsertionPoint(block):
        tensor.YieldOp(constant(zero_of(element)))
    return op.result
