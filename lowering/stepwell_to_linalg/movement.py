"""Movement ops: copies with indexing maps, or with tables of indices if no map can express them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from ...dialects.stepwell import movement as ops
from ...dialects.stepwell.shape import BorderOp
from ...passes.ir.values import element_type_of, shape_of
from ..builders.indices import value_of
from ..builders.scalars import number
from ..builders.tensors import broadcast_map, copy, dims, insert, loop_index, structured, with_shape
from .rules import LINALG
from .sequences import from_front


@LINALG.attach(ops.TransposeOp)
def transpose(op: ops.TransposeOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits a copy whose source is indexed in another order."""
    loops = dims(len(op.permutation))
    return [copy(inputs[0], outs[0], [loops[op.permutation.index(axis)] for axis in range(len(loops))])]


@LINALG.attach(ops.ReshapeOp)
def reshape(op: ops.ReshapeOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits another view."""
    return [with_shape(inputs[0], shape_of(outs[0]))]


@LINALG.attach(ops.ConcatOp)
def concat(op: ops.ConcatOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits adjacent copies: one per operand, or one per part of operands concatenated along the same axis."""
    rank = len(shape_of(outs[0]))
    axis = op.axis % rank
    result, offsets = outs[0], [0] * rank
    for operand, value in zip(op.operation.operands, inputs, strict=True):
        for part in _parts(operand, value, axis):
            result = insert(part, result, offsets)
            offsets[axis] += shape_of(part)[axis]
    return [result]


def _parts(operand: ir.Value, value: ir.Value, axis: int) -> list[ir.Value]:
    """Returns the values that `value` was concatenated from along `axis`; `operand` is that value before lowering."""
    if isinstance(operand.owner, ir.Block) or operand.owner.operation.name != ops.ConcatOp.OPERATION_NAME:
        return [value]
    inner = ops.ConcatOp(operand.owner.operation)
    if inner.axis % len(shape_of(value)) != axis:
        return [value]
    parts = []
    while not isinstance(value.owner, ir.Block) and value.owner.operation.name == "tensor.insert_slice":
        part, value = value.owner.operation.operands
        parts.append(part)
    return parts[::-1]


@LINALG.attach(ops.SliceOp)
def slice_(op: ops.SliceOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits a copy of a part, as a view except for steps along rows: a view with gaps is read element by element."""
    shape, starts, steps = shape_of(outs[0]), list(op.starts), list(op.steps)
    exprs = dims(len(shape))
    viewed = list(shape)
    if steps and steps[-1] != 1:
        exprs[-1] = exprs[-1] * steps[-1] + starts[-1]
        viewed[-1], starts[-1], steps[-1] = shape_of(inputs[0])[-1], 0, 1
    kind = ir.RankedTensorType.get(viewed, element_type_of(inputs[0]))
    part = tensor.ExtractSliceOp(kind, inputs[0], [], [], [], starts, viewed, steps).result
    return [copy(part, outs[0], exprs)]


@LINALG.attach(ops.ReverseOp)
def reverse(op: ops.ReverseOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits a lookup of every element from the end: MLIR cannot tile an index map that reads backwards."""
    source, rank = inputs[0], len(shape_of(inputs[0]))
    last = {axis % rank: shape_of(source)[axis] - 1 for axis in op.axes}

    def body(_: ir.Value) -> ir.Value:
        where = [loop_index(axis) for axis in range(rank)]
        return tensor.extract(
            source, [arith.subi(value_of(last[axis]), at) if axis in last else at for axis, at in enumerate(where)]
        )

    return structured([], [outs[0]], [dims(rank)], "p" * rank, body)


@LINALG.attach(ops.BroadcastToOp)
def broadcast_to(op: ops.BroadcastToOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits a copy that reads elements repeatedly."""
    return [copy(inputs[0], outs[0], broadcast_map(shape_of(inputs[0]), shape_of(outs[0])))]


@LINALG.attach(ops.TileOp)
def tile(op: ops.TileOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits a copy into a view of the destination that has a dimension for the repetitions."""
    shape = shape_of(inputs[0])
    wide = [extent for pair in zip(op.repeats, shape, strict=True) for extent in pair]
    exprs = dims(len(wide))[1::2]
    return [with_shape(copy(inputs[0], with_shape(outs[0], wide), exprs), shape_of(outs[0]))]


@LINALG.attach(ops.PadOp)
def pad(op: ops.PadOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits a copy of the inside; the parts before and after it are filled, or copied from the inside, by dimension."""
    value, result = inputs[0], outs[0]
    shape, extents = shape_of(value), shape_of(outs[0])
    result = insert(value, result, list(op.low))
    for axis, extent in enumerate(shape):
        for start, size in ((0, op.low[axis]), (op.low[axis] + extent, op.high[axis])):
            if size == 0:
                continue
            # Dimensions before this one already have their padding, those after it do not yet.
            offsets = [0 if other < axis else op.low[other] for other in range(len(shape))]
            sizes = [extents[other] if other < axis else shape[other] for other in range(len(shape))]
            offsets[axis], sizes[axis] = start, size
            result = _pad_part(op, value, result, offsets, sizes)
    return [result]


@LINALG.attach(BorderOp)
def border(op: BorderOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Fills the parts before and after the inside along each dimension."""
    (result,) = outs
    scalar = number(op.value.item(), element_type_of(result))
    for offsets, sizes in _edges(op.shape, op.low, op.high):
        ones = [1] * len(sizes)
        kind = ir.RankedTensorType.get(sizes, element_type_of(result))
        window = tensor.ExtractSliceOp(kind, result, [], [], [], offsets, sizes, ones).result
        part = linalg.fill(scalar, outs=[window])
        result = tensor.InsertSliceOp(part, result, [], [], [], offsets, sizes, ones).result
    return [result]


def _edges(shape: Sequence[int], low: Sequence[int], high: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yields the disjoint boxes (offsets, sizes) that make up a border."""
    inside = [extent - before - after for before, extent, after in zip(low, shape, high, strict=True)]
    for axis in range(len(shape)):
        for start, size in ((0, low[axis]), (low[axis] + inside[axis], high[axis])):
            if size == 0:
                continue
            # Dimensions before this one are restricted to their inside, those after it are covered in full.
            offsets = [low[other] if other < axis else 0 for other in range(len(shape))]
            sizes = [inside[other] if other < axis else shape[other] for other in range(len(shape))]
            offsets[axis], sizes[axis] = start, size
            yield offsets, sizes


def _pad_part(op: ops.PadOp, value: ir.Value, into: ir.Value, offsets: list[int], sizes: list[int]) -> ir.Value:
    element, ones = element_type_of(into), [1] * len(sizes)
    kind = ir.RankedTensorType.get(sizes, element)
    window = tensor.ExtractSliceOp(kind, into, [], [], [], offsets, sizes, ones).result
    if op.mode == "constant":
        part = linalg.fill(number(op.value, element), outs=[window])
    else:
        loops = dims(len(sizes))

        def body(_: ir.Value) -> ir.Value:
            extents = shape_of(value)
            places = [
                _inside(op.mode, loop_index(axis), offsets[axis] - op.low[axis], sizes[axis], extents[axis])
                for axis in range(len(sizes))
            ]
            return tensor.extract(value, places)

        part = structured([], [window], [loops], "p" * len(sizes), body)[0]
    return tensor.InsertSliceOp(part, into, [], [], [], offsets, sizes, ones).result


def _inside(mode: str, index: ir.Value, offset: int, size: int, extent: int) -> ir.Value:
    """Emits the index in a dimension of `extent` that padding at `index + offset` reads; `index` is below `size`."""
    kind = ir.IndexType.get()
    if mode == "wrap":
        # The least multiple of the extent that makes all indices non-negative.
        shifted = arith.addi(index, number(offset + -(offset // extent) * extent, kind))
        return arith.remui(shifted, number(extent, kind))
    place = index if offset == 0 else arith.addi(index, number(offset, kind))
    last = number(extent - 1, kind)
    if offset < 0:
        below = arith.cmpi(arith.CmpIPredicate.slt, place, number(0, kind))
        mirrored = number(0, kind) if mode == "edge" else arith.subi(number(0, kind), place)
        place = arith.select(below, mirrored, place)
    if offset + size > extent:
        above = arith.cmpi(arith.CmpIPredicate.sgt, place, last)
        mirrored = last if mode == "edge" else arith.subi(number(2 * (extent - 1), kind), place)
        place = arith.select(above, mirrored, place)
    return place


@LINALG.attach(ops.TakeRowsOp)
def take_rows(op: ops.TakeRowsOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits a lookup of the index of every row of the result."""
    source, places = inputs
    sizes, rank, spread = shape_of(source)[: op.leading], len(shape_of(outs[0])), len(shape_of(places))
    loops = dims(rank)

    def body(at: ir.Value, _: ir.Value) -> ir.Value:
        place, _is_inside = from_front(at, math.prod(sizes))
        where: list[ir.Value] = []
        for size in reversed(sizes[1:]):
            where.insert(0, arith.remui(place, value_of(size)))
            place = arith.divui(place, value_of(size))
        return tensor.extract(source, [place, *where, *map(loop_index, range(spread, rank))])

    return structured([places], [outs[0]], [loops[:spread], loops], "p" * rank, body)


@LINALG.attach(ops.GatherOp)
def gather(op: ops.GatherOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits a lookup of the index of every element of the result; contiguous rows are copied as vectors."""
    source, indices = inputs
    rank, axis, spread = len(shape_of(outs[0])), op.axis % len(shape_of(source)), len(shape_of(indices))
    extent = shape_of(source)[axis]
    loops = dims(rank)

    def body(at: ir.Value, _: ir.Value) -> ir.Value:
        where = [loop_index(position) for position in range(rank)]
        chosen, _is_inside = from_front(at, extent)
        return tensor.extract(source, [*where[:axis], chosen, *where[axis + spread :]])

    return structured([indices], [outs[0]], [loops[axis : axis + spread], loops], "p" * rank, body)
