"""Regions of interest: the number of elements of a bin is known only at run time, so bodies are loops over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, math, tensor

from ....dialects.stepwell.regions import RoiAlignOp, RoiMaxPoolOp
from ....passes.ir.values import element_type_of, shape_of
from ...builders import scalars
from ...builders.indices import Index, value_of
from ...builders.scalars import narrow, number, widen
from ...builders.tensors import dims, loop_index, structured
from ..rules import LINALG, LINALG_BY_ELEMENT
from ..sequences import from_front, repeat
from .channels import ReadAt, by_channels, filled_like, like, scalar_of


def _to_float(value: ir.Value, kind: ir.Type) -> ir.Value:
    """Returns an index as a float."""
    return arith.sitofp(kind, arith.index_cast(ir.IntegerType.get_signless(64), value))


def _to_index(value: ir.Value, high: float) -> ir.Value:
    """Returns a float as an index from 0 to `high`; NaN becomes 0."""
    kind = value.type
    inside = arith.minnumf(arith.maxnumf(value, number(0, kind)), number(high, kind))
    return arith.index_cast(ir.IndexType.get(), arith.fptosi(ir.IntegerType.get_signless(64), inside))


def _for_each(
    ranges: Sequence[tuple[Index, Index]], start: ir.Value, body: Callable[[list[ir.Value], ir.Value], ir.Value]
) -> ir.Value:
    """Passes a value through `body` for each point of a box."""

    def loops(at: list[ir.Value], value: ir.Value) -> ir.Value:
        if len(at) == len(ranges):
            return body(at, value)
        return repeat(*ranges[len(at)], [value], lambda index, carried: [loops([*at, index], carried[0])])[0]

    return loops([], start)


# Maximum number of samples per bin and dimension; only absurd regions have more.
_MOST_SAMPLES = 1 << 20


@LINALG_BY_ELEMENT.attach(RoiAlignOp)
def roi_align_by_element(op: RoiAlignOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits one loop over [region, channel, row, column]."""
    images = inputs[0]
    wide = scalars.compute_type(element_type_of(images))

    def body(_: ir.Value) -> ir.Value:
        region, channel, *place = (loop_index(dim) for dim in range(4))

        def read(image: ir.Value, row: ir.Value, column: ir.Value) -> ir.Value:
            return widen(tensor.extract(images, [image, channel, row, column]))

        return narrow(_aligned(op, inputs, region, place, read, wide), element_type_of(images))

    return structured([], [outs[0]], [dims(4)], "pppp", body)


@LINALG.attach(RoiAlignOp)
def roi_align(op: RoiAlignOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Computes all channels of a bin together."""
    samples = (op.samples or 2) ** 2
    return by_channels(
        inputs[0], outs, samples, lambda region, place, read, kind: _aligned(op, inputs, region, place, read, kind)
    ) or roi_align_by_element(op, inputs, outs)


def _aligned(
    op: RoiAlignOp,
    inputs: list[ir.Value],
    region: ir.Value,
    place: Sequence[ir.Value],
    read: ReadAt,
    wide: ir.Type,
) -> ir.Value:
    """Computes one bin in `wide`: of one channel, or of a vector of them."""
    images, regions, names = inputs
    extents, kind = shape_of(images), scalars.compute_type(element_type_of(regions))
    image, _inside = from_front(tensor.extract(names, [region]), extents[0])
    edges = [_edge(op, widen(tensor.extract(regions, [region, value_of(at)]))) for at in (1, 0, 3, 2)]
    starts, steps = edges[:2], _steps(op, edges, kind)
    counts = [_count(op, step) for step in steps]

    def accumulate(at: list[ir.Value], total: ir.Value) -> ir.Value:
        where = [
            _position(start, step, index, sample, count)
            for start, step, index, sample, count in zip(starts, steps, place, at, counts, strict=True)
        ]
        return _combined(op.mode, total, _terms(lambda *at: read(image, *at), where, extents[2:], wide))

    none = filled_like(float("-inf") if op.mode == "max" else 0, wide)
    total = _for_each([(0, count) for count in counts], none, accumulate)
    samples = arith.muli(*map(value_of, counts))
    is_empty = arith.cmpi(arith.CmpIPredicate.eq, samples, value_of(0))
    if op.mode == "mean":
        total = arith.divf(total, like(_to_float(samples, scalar_of(wide)), wide))
    return arith.select(is_empty, filled_like(0, wide), total)


def _edge(op: RoiAlignOp, value: ir.Value) -> ir.Value:
    scaled = arith.mulf(value, number(op.scale, value.type))
    return arith.subf(scaled, number(op.shift, value.type))


def _steps(op: RoiAlignOp, edges: Sequence[ir.Value], kind: ir.Type) -> list[ir.Value]:
    """Returns the extent of a bin along each dimension."""
    lengths = [arith.subf(end, start) for start, end in zip(edges[:2], edges[2:], strict=True)]
    if op.shift == 0:
        lengths = [arith.maxnumf(length, number(1, kind)) for length in lengths]
    return [arith.divf(length, number(count, kind)) for length, count in zip(lengths, op.sizes, strict=True)]


def _count(op: RoiAlignOp, step: ir.Value) -> Index:
    return op.samples or _to_index(math.ceil(step), _MOST_SAMPLES)


def _position(start: ir.Value, step: ir.Value, place: ir.Value, sample: ir.Value, count: Index) -> ir.Value:
    kind = start.type
    inside = arith.mulf(arith.addf(_to_float(sample, kind), number(0.5, kind)), step)
    offset = arith.divf(inside, _to_float(value_of(count), kind))
    return arith.addf(start, arith.addf(arith.mulf(_to_float(place, kind), step), offset))


def _terms(
    read: Callable[[ir.Value, ir.Value], ir.Value], at: Sequence[ir.Value], extents: Sequence[int], wide: ir.Type
) -> list[ir.Value]:
    """Returns the four elements around a position, each times its weight; zeros if the position is outside."""
    around = [_around(position, extent) for position, extent in zip(at, extents, strict=True)]
    is_inside = arith.andi(*(inside for inside, _ in around))
    terms = []
    for row, vertical in around[0][1]:
        for column, horizontal in around[1][1]:
            weight = arith.mulf(vertical, horizontal)
            weight = weight if weight.type == scalar_of(wide) else _cast(weight, scalar_of(wide))
            term = arith.mulf(read(row, column), like(weight, wide))
            terms.append(arith.select(is_inside, term, filled_like(0, wide)))
    return terms


def _cast(value: ir.Value, kind: ir.Type) -> ir.Value:
    assert isinstance(kind, ir.FloatType) and isinstance(value.type, ir.FloatType)
    return arith.extf(kind, value) if kind.width > value.type.width else arith.truncf(kind, value)


def _around(at: ir.Value, extent: int) -> tuple[ir.Value, list[tuple[ir.Value, ir.Value]]]:
    """Returns whether a position counts, and the two elements around it with their weights."""
    kind = at.type
    after_start = arith.cmpf(arith.CmpFPredicate.OGE, at, number(-1, kind))
    inside = arith.andi(after_start, arith.cmpf(arith.CmpFPredicate.OLE, at, number(extent, kind)))
    at = arith.maxnumf(at, number(0, kind))
    low = _to_index(math.floor(at), extent - 1)
    high = arith.minsi(arith.addi(low, value_of(1)), value_of(extent - 1))
    is_last = arith.cmpi(arith.CmpIPredicate.eq, low, high)
    ratio = arith.select(is_last, number(0, kind), arith.subf(at, _to_float(low, kind)))
    return inside, [(low, arith.subf(number(1, kind), ratio)), (high, ratio)]


def _combined(mode: str, total: ir.Value, terms: Sequence[ir.Value]) -> ir.Value:
    for term in terms:
        total = arith.addf(total, term) if mode == "mean" else arith.maximumf(total, term)
    return total


@LINALG_BY_ELEMENT.attach(RoiMaxPoolOp)
def roi_max_pool_by_element(op: RoiMaxPoolOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits one loop over [region, channel, row, column]."""
    images = inputs[0]

    def body(_: ir.Value) -> ir.Value:
        region, channel, *place = (loop_index(dim) for dim in range(4))

        def read(image: ir.Value, row: ir.Value, column: ir.Value) -> ir.Value:
            return tensor.extract(images, [image, channel, row, column])

        return _greatest(op, inputs, region, place, read, element_type_of(images))

    return structured([], [outs[0]], [dims(4)], "pppp", body)


@LINALG.attach(RoiMaxPoolOp)
def roi_max_pool(op: RoiMaxPoolOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Computes all channels of a bin together."""
    return by_channels(
        inputs[0], outs, 4, lambda region, place, read, kind: _greatest(op, inputs, region, place, read, kind)
    ) or roi_max_pool_by_element(op, inputs, outs)


def _greatest(
    op: RoiMaxPoolOp,
    inputs: list[ir.Value],
    region: ir.Value,
    place: Sequence[ir.Value],
    read: ReadAt,
    kind: ir.Type,
) -> ir.Value:
    """Computes one bin: of one channel, or of a vector of them."""
    images, regions = inputs
    extents = shape_of(images)
    name, *edges = (widen(tensor.extract(regions, [region, value_of(at)])) for at in (0, 2, 1, 4, 3))
    image = _to_index(name, extents[0] - 1)
    top, left, bottom, right = (_rounded(arith.mulf(edge, number(op.scale, edge.type))) for edge in edges)
    ranges = [
        _bin(index, low, high, count, extent)
        for index, low, high, count, extent in zip(
            place, (top, left), (bottom, right), op.sizes, extents[2:], strict=True
        )
    ]
    least = filled_like(float("-inf"), kind)
    best = _for_each(ranges, least, lambda at, best: arith.maximumf(best, read(image, *at)))
    empties = [arith.cmpi(arith.CmpIPredicate.sle, last, first) for first, last in ranges]
    return arith.select(arith.ori(*empties), filled_like(0, kind), best)


def _rounded(value: ir.Value) -> ir.Value:
    """Rounds to the nearest integer, halves away from 0."""
    size = math.floor(arith.addf(math.absf(value), number(0.5, value.type)))
    return math.copysign(size, value)


def _bin(place: ir.Value, low: ir.Value, high: ir.Value, count: int, extent: int) -> tuple[ir.Value, ir.Value]:
    """Like `bin_of` of the reference implementation."""
    kind = low.type
    length = arith.maxnumf(arith.addf(arith.subf(high, low), number(1, kind)), number(1, kind))
    step, start = arith.divf(length, number(count, kind)), _to_float(place, kind)
    first = arith.addf(math.floor(arith.mulf(start, step)), low)
    last = arith.addf(math.ceil(arith.mulf(arith.addf(start, number(1, kind)), step)), low)
    return _to_index(first, extent), _to_index(last, extent)
