"""Sampling: weighted sums of elements at computed positions, in vectors of positions."""

from __future__ import annotations

import itertools
import math as python_math
from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, math, tensor

from ....dialects.stepwell import movement as ops
from ....dialects.stepwell.movement.sampling import CUBIC_COEFFICIENT
from ....passes.ir.values import element_type_of, shape_of
from ...builders import scalars
from ...builders.scalars import narrow, number, widen
from ...builders.tensors import dims, loop_index, structured, with_shape
from ..rules import LINALG
from ..sequences import part

Tap = tuple[ir.Value, ir.Value | None]


@LINALG.attach(ops.SampleOp)
def sample(op: ops.SampleOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits one loop over [batch, channel, position]."""
    images, positions = inputs
    element, shape = element_type_of(images), shape_of(images)
    batch, channels, *spatial = shape
    count = python_math.prod(shape_of(outs[0])[2:])
    if 0 in shape_of(outs[0]):
        return [outs[0]]
    flat = with_shape(positions, [batch, len(spatial), count])
    along = [with_shape(part(flat, [0, axis, 0], [batch, 1, count]), [batch, count]) for axis in range(len(spatial))]
    out = with_shape(outs[0], [batch, channels, count])
    n, c, p = dims(3)

    def body(*values: ir.Value) -> ir.Value:
        taps = [_taps(position, op.mode) for position in values[:-1]]
        found = [
            [(*_place(at, extent, op), weight) for at, weight in some]
            for some, extent in zip(taps, spatial, strict=True)
        ]
        where = [loop_index(0), loop_index(1)]

        def value(choice: Sequence[tuple]) -> ir.Value:
            taken = widen(tensor.extract(images, [*where, *(index for index, _, _ in choice)]))
            inside = [is_inside for _, is_inside, _ in choice if is_inside is not None]
            return arith.select(_all(inside), taken, number(0, taken.type)) if inside else taken

        if op.mode == "nearest":
            return narrow(value([some[0] for some in found]), element)
        return narrow(_weighed(found, value, scalars.compute_type(element)), element)

    result = structured(along, [out], [*[[n, p]] * len(spatial), [n, c, p]], "ppp", body)[0]
    return [with_shape(result, shape_of(outs[0]))]


def _all(conditions: Sequence[ir.Value]) -> ir.Value:
    result = conditions[0]
    for condition in conditions[1:]:
        result = arith.andi(result, condition)
    return result


def _weighed(found: Sequence[Sequence[tuple]], value: Callable[[Sequence[tuple]], ir.Value], wide: ir.Type) -> ir.Value:
    """Returns the sum over all choices of a tap per dimension."""
    total: ir.Value | None = None
    for choice in itertools.product(*found):
        weight: ir.Value | None = None
        for _, _, factor in choice:
            weight = factor if weight is None else arith.mulf(weight, factor)
        assert weight is not None
        term = arith.mulf(value(choice), _as(weight, wide))
        total = term if total is None else arith.addf(total, term)
    assert total is not None
    return total


def _as(value: ir.Value, kind: ir.Type) -> ir.Value:
    if value.type == kind:
        return value
    assert isinstance(kind, ir.FloatType) and isinstance(value.type, ir.FloatType)
    return arith.extf(kind, value) if kind.width > value.type.width else arith.truncf(kind, value)


def _taps(position: ir.Value, mode: str) -> list[tuple[ir.Value, ir.Value]]:
    """Returns the integers around a position, and their weights."""
    kind = position.type
    one = number(1, kind)
    if mode == "nearest":
        return [(math.roundeven(position), one)]
    low = math.floor(position)
    ratio = arith.subf(position, low)
    if mode == "linear":
        return [(low, arith.subf(one, ratio)), (arith.addf(low, one), ratio)]
    return [
        (arith.addf(low, number(offset, kind)), weight)
        for offset, weight in zip(range(-1, 3), _cubic(ratio), strict=True)
    ]


def _cubic(ratio: ir.Value) -> list[ir.Value]:
    """Like `resampling.cubic_weights`."""
    a, kind = CUBIC_COEFFICIENT, ratio.type
    one = number(1, kind)

    def polynomial(x: ir.Value, *coefficients: float) -> ir.Value:
        total = number(coefficients[0], kind)
        for coefficient in coefficients[1:]:
            total = arith.addf(arith.mulf(total, x), number(coefficient, kind))
        return total

    def near(x: ir.Value) -> ir.Value:
        return polynomial(x, a + 2, -(a + 3), 0, 1)

    def far(x: ir.Value) -> ir.Value:
        return polynomial(x, a, -5 * a, 8 * a, -4 * a)

    rest = arith.subf(one, ratio)
    return [far(arith.addf(one, ratio)), near(ratio), near(rest), far(arith.addf(one, rest))]


def _place(at: ir.Value, extent: int, op: ops.SampleOp) -> Tap:
    """Returns the index of an element, clamped to the inside, and whether the element counts (None: it does)."""
    kind = at.type
    if op.padding == "reflection":
        at = _reflected(at, extent, op.about_edges)
    inside = arith.minnumf(arith.maxnumf(at, number(0, kind)), number(extent - 1, kind))
    index = arith.index_cast(ir.IndexType.get(), arith.fptosi(ir.IntegerType.get_signless(32), inside))
    if op.padding != "zeros":
        return index, None
    return index, arith.cmpf(arith.CmpFPredicate.OEQ, inside, at)


def _reflected(at: ir.Value, extent: int, about_edges: bool) -> ir.Value:
    kind = at.type
    if about_edges and extent == 1:
        return number(0, kind)
    period = number(2 * (extent - 1) if about_edges else 2 * extent, kind)
    shift = number(0 if about_edges else 0.5, kind)
    moved = arith.addf(at, shift)
    turns = math.roundeven(arith.divf(moved, period))
    return arith.subf(math.absf(arith.subf(moved, arith.mulf(period, turns))), shift)
