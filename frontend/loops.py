"""Loops as `scf` ops: counted loops, whose iterations may add rows to tensors, and loops with a condition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import arith, tensor

from ..dialects.core import spec_of
from ..dialects.dims import Dim, is_known, is_static
from ..dialects.stepwell.elementwise import AddOp, MulOp
from ..dialects.stepwell.movement import BroadcastToOp, ExpandDimsOp, RowOp, WithRowOp
from ..dialects.stepwell.shape import FillOp
from ..dialects.types import TensorSpec
from ..sizes import algebra
from .build import constant, dims_of, dtype, emit, integers, joined, rank, reshaped, shape, shape_of
from .errors import NeedsShapes, UnsupportedError

Carried = Sequence[ir.Value]

BATCH_SECOND = (1, 0, 2)
"""The permutation between [batch, time, depth] and [time, batch, depth], whose rows loops over time take."""


class LoopError(UnsupportedError):
    """A sequence of iterations cannot become a loop, though it may be unrolled."""


@dataclass(frozen=True)
class Stack:
    """The rows that one iteration adds to a tensor.

    Attributes:
        writes: the index of each row (a scalar i64) and the row.
        extents: extents of a row, as a list computed outside the loop; None if all of them are numbers.
        length: number of rows of the tensor (a scalar i64); None if it is the number that all iterations write.
    """

    writes: Sequence[tuple[ir.Value, ir.Value]]
    extents: ir.Value | None = None
    length: ir.Value | None = None


LoopBody = Callable[[ir.Value, Carried], tuple[Carried, list[Stack]]]
"""`body(iteration number, carried values)` returns the next carried values, and rows of tensors."""

_MOST_ROW_BYTES = 1 << 28
"""Maximum size of the rows of a loop whose number of iterations depends on data: there is room for all iterations."""

_TILES = (1, 4, 8, 16, 32)
"""Numbers of rows of a tile: larger tiles read weights less often, but have more empty rows."""


def tile_size(rows: Dim, groups: int) -> int:
    """Returns the number of rows of a tile of one group: about as many as a group has if all have equally many."""
    _, most = algebra.bounds(rows, {})
    share = _TILES[-1] if most is None else most / groups
    return next((size for size in _TILES if size >= share), _TILES[-1])


def counted(count: ir.Value, initial: Sequence[ir.Value], body: LoopBody) -> tuple[Carried, Carried]:
    """Runs `body` `count` times; returns the last carried values, and the tensors of rows.

    A single iteration needs no loop.

    Args:
        count: a scalar i64.
        initial: the values passed to the first iteration.
        body: builds an iteration at the insertion point.

    Raises:
        LoopError: a carried value changes its type.
        NeedsShapes: the extents of a row are not known outside the loop.
    """
    known = spec_of(count).value
    if known is not None and known == 1:
        return written_out(1, initial, body)
    # Only for analyses that trace the origins of values: the loop itself is made once its rows are known.
    draft = ir.Operation.create("scf.for", operands=[count, *initial], regions=1)
    try:
        return _loop(draft.regions[0], count, list(initial), body)
    finally:
        draft.erase()


def written_out(count: int, initial: Sequence[ir.Value], body: LoopBody) -> tuple[Carried, Carried]:
    """Does the same as `counted`, unrolled."""
    carried, rounds = list(initial), []
    for number in range(count):
        carried, stacks = body(constant(np.array(number, np.int64)), carried)
        rounds.append(stacks)
    together = [
        Stack([write for stack in parts for write in stack.writes], parts[0].extents, parts[0].length)
        for parts in zip(*rounds, strict=True)
    ]
    return carried, [_joined_rows(stack) for stack in together]


def _loop(region: ir.Region, count: ir.Value, initial: Carried, body: LoopBody) -> tuple[Carried, Carried]:
    """%r = scf.for %i = 0 to count iter_args(%c = initial, %s = zeros) { ...; yield %next, with_row(%s, %row, %i) }"""
    types = [value.type for value in initial]
    block = _block(region, [ir.IndexType.get(), *types])
    with ir.InsertionPoint(block):
        carried, stacks = body(scalar_of(block.arguments[0]), list(block.arguments)[1:])
        carried = [as_type(value, kind) for value, kind in zip(carried, types, strict=True)]
    starts = [_empty_stack(count, stack) for stack in stacks]
    known = spec_of(count).value
    if known is not None and known.item() < 1:
        return initial, starts
    bounds = [_index(0), index_of(count), _index(1)]
    final = ir.Operation.create(
        "scf.for",
        results=[*types, *(start.type for start in starts)],
        operands=[*bounds, *initial, *starts],
        regions=1,
    )
    with ir.InsertionPoint(block):
        for start, stack in zip(starts, stacks, strict=True):
            whole = block.add_argument(start.type, final.location)
            for index, row in stack.writes:
                whole = emit(WithRowOp, whole, row, index)
            carried.append(as_type(whole, start.type))
        ir.Operation.create("scf.yield", operands=carried)
    block.append_to(final.regions[0])
    return list(final.results)[: len(types)], list(final.results)[len(types) :]


def repeated(
    limit: ir.Value | None,
    condition: ir.Value | None,
    initial: Sequence[ir.Value],
    body: Callable[[ir.Value, Carried], tuple[ir.Value | None, Carried]],
) -> Carried:
    """Runs `body` while its condition holds, and at most `limit` times; returns the last carried values.

    Args:
        limit: a scalar i64; None for no limit.
        condition: a scalar bool that tells whether to begin; None for true.
        initial: the values passed to the first iteration.
        body: builds an iteration; returns its condition (None for true) and the next carried values.

    Raises:
        LoopError: a carried value changes its type.
    """
    begins = arith.ConstantOp(ir.IntegerType.get_signless(1), 1).result if condition is None else scalar_in(condition)
    last = None if limit is None else index_of(limit)
    start = [_index(0), begins, *initial]
    types = [value.type for value in start]
    loop = ir.Operation.create("scf.while", results=types, operands=start, regions=2)
    try:
        before, after = (_block(region, types) for region in loop.regions)
        with ir.InsertionPoint(before):
            number, goes_on, *_ = before.arguments
            if last is not None:
                is_early = arith.CmpIOp(arith.CmpIPredicate.slt, number, last).result
                goes_on = arith.AndIOp(is_early, goes_on).result
            ir.Operation.create("scf.condition", operands=[goes_on, *before.arguments])
        with ir.InsertionPoint(after):
            number, _, *carried = after.arguments
            again, values = body(scalar_of(number), carried)
            values = [as_type(value, kind) for value, kind in zip(values, types[2:], strict=True)]
            flag = arith.ConstantOp(types[1], 1).result if again is None else scalar_in(again)
            following = arith.AddIOp(number, _index(1)).result
            ir.Operation.create("scf.yield", operands=[following, flag, *values])
    except Exception:
        loop.erase()
        raise
    return list(loop.results)[2:]


def repeated_with_rows(
    limit: ir.Value,
    most: int,
    condition: ir.Value | None,
    initial: Sequence[ir.Value],
    body: Callable[[ir.Value, Carried], tuple[ir.Value | None, Carried]],
) -> tuple[Carried, Carried, ir.Value]:
    """Does the same as `repeated` for a body that also returns rows, behind the carried values.

    Args:
        limit: a scalar i64.
        most: the greatest value of the limit.
        condition: a scalar bool that tells whether to begin; None for true.
        initial: the values passed to the first iteration.
        body: builds an iteration; it is called twice.

    Returns:
        The last carried values, tensors with room for `most` rows, and the number of rows that there are (i64).

    Raises:
        LoopError: a carried value changes its type.
        NeedsShapes: the extents of a row are not known, or all rows take too much memory.
    """
    specs = _rows_of(initial, body)
    if any(not all(map(is_known, spec.shape)) for spec in specs):
        raise NeedsShapes("the shape of the rows that each loop iteration adds must be known")
    if sum(_bytes_of(spec) for spec in specs) * most > _MOST_ROW_BYTES:
        raise NeedsShapes("the number of iterations of a loop that adds rows to its outputs must be less")
    zeros = [constant(np.zeros((), spec.dtype)) for spec in specs]
    rows = [emit(BroadcastToOp, zero, shape=(most, *spec.shape)) for zero, spec in zip(zeros, specs, strict=True)]
    count, kept = len(initial), len(initial) + len(rows)

    def round(number: ir.Value, carried: Carried) -> tuple[ir.Value | None, Carried]:
        again, values = body(number, carried[:count])
        added = zip(carried[count:kept], values[count:], strict=True)
        following = emit(AddOp, number, constant(np.array(1, np.int64)))
        return again, [*values[:count], *(emit(WithRowOp, whole, row, number) for whole, row in added), following]

    first = constant(np.array(0, np.int64))
    found = repeated(limit, condition, [*initial, *rows, first], round)
    return found[:count], found[count:kept], found[kept]


def _rows_of(
    initial: Carried, body: Callable[[ir.Value, Carried], tuple[ir.Value | None, Carried]]
) -> list[TensorSpec]:
    """The types of the rows that an iteration returns behind the carried values."""
    draft = ir.Operation.create("scf.while", operands=list(initial), regions=1)
    try:
        block = _block(draft.regions[0], [ir.IndexType.get(), *(value.type for value in initial)])
        with ir.InsertionPoint(block):
            _, values = body(scalar_of(block.arguments[0]), list(block.arguments)[1:])
            return [spec_of(value) for value in values[len(initial) :]]
    finally:
        draft.erase()


def _bytes_of(spec: TensorSpec) -> int:
    """The size of a row at the greatest sizes; a size without a limit counts as 1."""
    return math.prod(algebra.bounds(dim, {})[1] or 1 for dim in spec.shape) * spec.dtype.itemsize


def row(value: ir.Value, index: ir.Value) -> ir.Value:
    """`value[index]`; if there are no rows, a row of zeros, as only its type matters."""
    if shape(value)[0] != 0:
        return emit(RowOp, value, index)
    return emit(FillOp, dims_of(value, 1, rank(value)), value=np.zeros((), dtype(value)))


def _block(region: ir.Region, types: Sequence[ir.Type]) -> ir.Block:
    return ir.Block.create_at_start(region, list(types), [ir.Location.current] * len(types))


def _index(number: int) -> ir.Value:
    return arith.ConstantOp(ir.IndexType.get(), number).result


def index_of(value: ir.Value) -> ir.Value:
    """Converts a scalar i64 tensor to an index."""
    known = spec_of(value).value
    return (
        _index(int(known.item()))
        if known is not None
        else arith.IndexCastOp(ir.IndexType.get(), scalar_in(value)).result
    )


def scalar_in(value: ir.Value) -> ir.Value:
    """The only element of a tensor."""
    flat = value if rank(value) == 0 else reshaped(value, integers([]))
    return tensor.ExtractOp(flat, []).result


def scalar_of(index: ir.Value) -> ir.Value:
    """Converts an index to a scalar i64 tensor."""
    i64 = ir.IntegerType.get_signless(64)
    number = arith.IndexCastOp(i64, index).result
    return tensor.FromElementsOp(ir.RankedTensorType.get([], i64), [number]).result


def as_type(value: ir.Value, kind: ir.Type) -> ir.Value:
    """Casts `value` to the type `kind`, which may have more or fewer static dimensions.

    Raises:
        LoopError: the types differ in element type, or their shapes cannot be equal.
    """
    if value.type == kind:
        return value
    own, other = ir.RankedTensorType(value.type), ir.RankedTensorType(kind)
    dynamic = ir.ShapedType.get_dynamic_size()
    fits = own.element_type == other.element_type and own.rank == other.rank
    if not fits or any(a != b and dynamic not in (a, b) for a, b in zip(own.shape, other.shape, strict=True)):
        raise LoopError(f"carries {other} from iteration to iteration, but an iteration returns {own}")
    return tensor.CastOp(kind, value).result


def _joined_rows(stack: Stack) -> ir.Value:
    """Concatenates all rows, whose indices are numbers."""
    places = [spec_of(index).value for index, _ in stack.writes]
    order = sorted(zip(places, stack.writes, strict=True), key=lambda item: int(np.asarray(item[0])))
    rows = joined([emit(ExpandDimsOp, row, axes=(0,)) for _, (_, row) in order])
    if stack.length is None or spec_of(stack.length).value == len(order):
        return rows
    whole = _empty_stack(stack.length, stack)
    for index, row in stack.writes:
        whole = emit(WithRowOp, whole, row, index)
    return whole


def _empty_stack(count: ir.Value, stack: Stack) -> ir.Value:
    """A tensor of zeros for all rows."""
    row = stack.writes[0][1]
    if is_static(shape(row)):
        extents = shape_of(row)
    elif stack.extents is not None:
        extents = stack.extents
    elif all(map(is_known, shape(row))):
        extents = integers(shape(row))
    else:
        raise NeedsShapes("the shape of the rows that each loop iteration adds must be known")
    rows = stack.length or emit(MulOp, count, constant(np.array(len(stack.writes), np.int64)))
    zero = np.zeros((), dtype(row))
    return emit(FillOp, joined([emit(ExpandDimsOp, rows, axes=(0,)), extents]), value=zero)
