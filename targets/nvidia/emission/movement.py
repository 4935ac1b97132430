"""Elements of the results of data-movement ops, mapped to elements of their operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mlir import ir
from mlir.dialects import arith, scf

from ....lowering.builders.strides import reassociation
from ....passes.infra.base import PassError
from ....passes.ir.values import shape_of
from ....passes.kernel.views import kept_dims
from .indices import Index, add, delinearize, linearize, multiply, value_of

if TYPE_CHECKING:
    from .evaluator import Evaluator, Lanes

_DYNAMIC = ir.ShapedType.get_dynamic_size()


def collapse_shape(values: Evaluator, op: ir.Operation, tensor: ir.Value, indices: list[Index], width: int) -> Lanes:
    """Returns elements of the tensor before its dimensions were merged."""
    source = op.operands[0]
    shape, inner = shape_of(source), []
    for run, index in zip(reassociation(op), indices, strict=True):
        inner += delinearize(index, [shape[axis] for axis in run])
    if not indices:
        inner = [0] * len(shape)
    return _row(values, tensor, source, indices, inner, width, _last_real(shape))


def expand_shape(values: Evaluator, op: ir.Operation, tensor: ir.Value, indices: list[Index], width: int) -> Lanes:
    """Returns elements of the tensor before its dimensions were split."""
    shape = shape_of(tensor)
    inner = [linearize([indices[axis] for axis in run], [shape[axis] for axis in run]) for run in reassociation(op)]
    return _row(values, tensor, op.operands[0], indices, inner, width, _last_real(shape))


def extract_slice(values: Evaluator, op: ir.Operation, tensor: ir.Value, indices: list[Index], width: int) -> Lanes:
    """Returns elements of the tensor that is sliced."""
    source = op.operands[0]
    offsets, sizes, steps = _box(values, op, 1)
    places: list[Index] = [0] * len(sizes)
    for axis, index in zip(kept_dims(sizes, shape_of(tensor)), indices, strict=True):
        places[axis] = multiply(index, steps[axis])
    inner = [add(first, place) for first, place in zip(offsets, places, strict=True)]
    last = offsets[-1] if offsets else 0
    is_row = steps[-1:] == [1] and kept_dims(sizes, shape_of(tensor))[-1:] == [len(sizes) - 1]
    if width > 1 and not (is_row and isinstance(last, int) and last % width == 0):
        return values.one_by_one(tensor, indices, width)
    return values.lanes(source, inner, width)


def insert_slice(values: Evaluator, op: ir.Operation, tensor: ir.Value, indices: list[Index], width: int) -> Lanes:
    """Returns elements of the inserted tensor inside its box, and of the destination outside."""
    source, into = op.operands[0], op.operands[1]
    offsets, sizes, steps = _box(values, op, 2)
    if any(step != 1 for step in steps) or not all(isinstance(first, int) for first in offsets):
        raise PassError("'tensor.insert_slice' op: expected constant offsets and unit strides", op.location)
    stops = [first + size for first, size in zip(offsets, sizes, strict=True)]
    if width > 1 and (offsets[-1] % width or stops[-1] % width):
        return values.one_by_one(tensor, indices, width)

    def inside() -> Lanes:
        places = [add(index, -first) for index, first in zip(indices, offsets, strict=True)]
        kept = kept_dims(sizes, shape_of(source))
        return values.lanes(source, [places[axis] for axis in kept], width)

    bounds = list(zip(indices, offsets, stops, shape_of(tensor), strict=True))
    return choose(values, tensor, _within(bounds), width, inside, lambda: values.lanes(into, indices, width))


def pad(values: Evaluator, op: ir.Operation, tensor: ir.Value, indices: list[Index], width: int) -> Lanes:
    """Returns elements of the tensor inside its bounds, and the padding value outside."""
    low = list(ir.DenseI64ArrayAttr(op.attributes["static_low"]))
    if _DYNAMIC in low:
        raise PassError("'tensor.pad' op: expected constant low padding", op.location)
    shape = shape_of(op.operands[0])
    stops = [first + extent for first, extent in zip(low, shape, strict=True)]
    if width > 1 and (low[-1] % width or stops[-1] % width):
        return values.one_by_one(tensor, indices, width)
    block = op.regions[0].blocks[0]
    around = block.operations[len(block.operations) - 1].operands[0]

    def inside() -> Lanes:
        places = [add(index, -first) for index, first in zip(indices, low, strict=True)]
        return values.lanes(op.operands[0], places, width)

    bounds = list(zip(indices, low, stops, shape_of(tensor), strict=True))
    return choose(values, tensor, _within(bounds), width, inside, lambda: [values.scalar(around)] * width)


def concat(values: Evaluator, op: ir.Operation, tensor: ir.Value, indices: list[Index], width: int) -> Lanes:
    """Returns elements of the operand that holds them."""
    axis = ir.IntegerAttr(op.attributes["dim"]).value
    ends, total = [], 0
    for operand in op.operands:
        total += shape_of(operand)[axis]
        ends.append(total)
    if width > 1 and axis == len(indices) - 1 and any(end % width for end in ends):
        return values.one_by_one(tensor, indices, width)
    return _from(values, list(op.operands), ends, indices, axis, width)


def _from(
    values: Evaluator, operands: Sequence[ir.Value], ends: Sequence[int], indices: list[Index], axis: int, width: int
) -> Lanes:
    """Returns elements of the first operand whose end lies beyond the index along `axis`."""
    start = ends[0] - shape_of(operands[0])[axis]
    place = [*indices[:axis], add(indices[axis], -start), *indices[axis + 1 :]]
    if len(operands) == 1:
        return values.lanes(operands[0], place, width)
    return choose(
        values,
        operands[0],
        _less(indices[axis], ends[0]),
        width,
        lambda: values.lanes(operands[0], place, width),
        lambda: _from(values, operands[1:], ends[1:], indices, axis, width),
    )


def from_elements(values: Evaluator, op: ir.Operation, tensor: ir.Value, indices: list[Index], width: int) -> Lanes:
    """Returns one of the scalars that the tensor consists of."""
    scalars = [values.scalar(operand) for operand in op.operands]
    place = linearize(indices, shape_of(tensor))
    return [_pick(scalars, add(place, lane)) for lane in range(width)]


def _pick(scalars: Sequence[ir.Value], place: Index) -> ir.Value:
    if isinstance(place, int):
        return scalars[place]
    chosen = scalars[0]
    for number, scalar in enumerate(scalars[1:], 1):
        is_it = arith.cmpi(arith.CmpIPredicate.eq, place, value_of(number))
        chosen = arith.select(is_it, scalar, chosen)
    return chosen


def splat(values: Evaluator, op: ir.Operation, tensor: ir.Value, indices: list[Index], width: int) -> Lanes:
    """Returns the scalar that fills the tensor."""
    return [values.scalar(op.operands[0])] * width


def choose(
    values: Evaluator,
    tensor: ir.Value,
    condition: ir.Value | bool,
    width: int,
    yes: Callable[[], Lanes],
    no: Callable[[], Lanes],
) -> Lanes:
    """Returns the elements made by `yes` if the condition holds, else those made by `no`; only one is executed."""
    if isinstance(condition, bool):
        return yes() if condition else no()
    kinds = [ir.RankedTensorType(tensor.type).element_type] * width
    branch = scf.IfOp(condition, kinds, has_else=True)
    for region, make in zip(branch.operation.regions, (yes, no), strict=True):
        with values.scope(), ir.InsertionPoint(region.blocks[0]):
            scf.YieldOp(make())
    return list(branch.results_)


def _within(bounds: Sequence[tuple[Index, int, int, int]]) -> ir.Value | bool:
    """Returns whether indices lie in a box, given the box's start and stop and the tensor's extent for each of them."""
    tests: list[ir.Value | bool] = []
    for index, first, stop, extent in bounds:
        if first > 0:
            tests.append(_not_less(index, first))
        if stop < extent:
            tests.append(_less(index, stop))
    return _all(tests)


def _all(tests: Sequence[ir.Value | bool]) -> ir.Value | bool:
    if any(test is False for test in tests):
        return False
    found: ir.Value | bool = True
    for test in tests:
        if test is not True:
            found = test if found is True else arith.andi(found, test)
    return found


def _less(index: Index, stop: int) -> ir.Value | bool:
    if isinstance(index, int):
        return index < stop
    return arith.cmpi(arith.CmpIPredicate.slt, index, value_of(stop))


def _not_less(index: Index, first: int) -> ir.Value | bool:
    if isinstance(index, int):
        return index >= first
    return arith.cmpi(arith.CmpIPredicate.sge, index, value_of(first))


def _row(
    values: Evaluator,
    tensor: ir.Value,
    source: ir.Value,
    indices: list[Index],
    inner: list[Index],
    width: int,
    last: tuple[int, int],
) -> Lanes:
    """Returns neighbours of a reshaped tensor by one access if they are neighbours in the source as well."""
    axis, extent = last
    if width == 1:
        return values.lanes(source, inner, width)
    shape = shape_of(source)
    is_whole = bool(shape) and axis >= 0 and extent % width == 0 and shape[-1] % width == 0
    if not is_whole:
        return values.one_by_one(tensor, indices, width)
    return values.lanes(source, inner, width)


def _last_real(shape: Sequence[int]) -> tuple[int, int]:
    return (len(shape) - 1, shape[-1]) if shape else (-1, 1)


def _box(values: Evaluator, op: ir.Operation, sources: int) -> tuple[list[Index], list[int], list[int]]:
    names = ("static_offsets", "static_sizes", "static_strides")
    offsets, sizes, steps = (list(ir.DenseI64ArrayAttr(op.attributes[name])) for name in names)
    if _DYNAMIC in (*sizes, *steps):
        raise PassError(f"'{op.name}' op: expected constant sizes and strides", op.location)
    computed = iter(list(op.operands)[sources:])
    places: list[Index] = [values.scalar(next(computed)) if first == _DYNAMIC else first for first in offsets]
    return places, sizes, steps
