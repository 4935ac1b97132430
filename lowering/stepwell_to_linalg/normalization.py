"""Softmax and the norms: a few reductions along rows, and elementwise ops that schedules run row by row."""

from __future__ import annotations

import math as python_math
from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, math

from ...dialects.stepwell import normalization as ops
from ...passes.ir.values import element_type_of, shape_of
from ..builders import scalars
from ..builders.scalars import AFN, CONTRACT, flags, narrow, number, widen
from ..builders.tensors import along, broadcast_map, dims, elementwise_over, empty, filled, pad_with, reduce, structured
from .reduction import summed
from .rules import LINALG

# Maximum length of a row whose exponentials in the compute type are kept: they need extra memory, and for longer rows
# computing them again is faster.
_LONGEST_WIDE_ROW = 4096


def _greatest(value: ir.Value, axis: int) -> ir.Value:
    """Returns the maximum along `axis`, subtracted before exp. A NaN may get lost here; the exponential restores it."""
    wide = scalars.compute_type(element_type_of(value))

    def body(element: ir.Value, best: ir.Value) -> ir.Value:
        wider = widen(element)
        return arith.select(arith.cmpf(arith.CmpFPredicate.OGT, wider, best), wider, best)

    return reduce(value, (axis,), number(-python_math.inf, wide), body)


def _shifted(element: ir.Value, greatest: ir.Value) -> ir.Value:
    return arith.subf(widen(element), greatest)


@LINALG.attach(ops.SoftmaxOp)
def softmax(op: ops.SoftmaxOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits the maximum, the exponentials and their sum, and scales by the inverse of the sum."""
    (value,) = inputs
    axis = op.axis % len(shape_of(value))
    greatest = _greatest(value, axis)
    wide = element_type_of(greatest)
    powers = empty(shape_of(value), wide)
    powers = along(value, [greatest], (axis,), lambda item, top: scalars.exp_of_normal(_shifted(item, top)), powers)
    total = summed(powers, (axis,))
    inverse = elementwise_over([total], lambda item: arith.divf(number(1, wide), item), total)
    element = element_type_of(value)
    if wide != element and shape_of(value)[axis] > _LONGEST_WIDE_ROW:

        def again(item: ir.Value, top: ir.Value, factor: ir.Value) -> ir.Value:
            return narrow(arith.mulf(scalars.exp_of_normal(_shifted(item, top)), factor), element)

        return [along(value, [greatest, inverse], (axis,), again, outs[0])]
    return [along(powers, [inverse], (axis,), lambda item, factor: narrow(arith.mulf(item, factor), element), outs[0])]


@LINALG.attach(ops.LogSoftmaxOp)
def log_softmax(op: ops.LogSoftmaxOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits the maximum and the sum of exponentials, and subtracts both."""
    (value,) = inputs
    axis = op.axis % len(shape_of(value))
    greatest = _greatest(value, axis)
    wide, element = element_type_of(greatest), element_type_of(value)
    powers = empty(shape_of(value), wide)
    powers = along(value, [greatest], (axis,), lambda item, top: scalars.exp_of_normal(_shifted(item, top)), powers)
    total = summed(powers, (axis,))
    logarithm = elementwise_over([total], math.log, total)

    def body(item: ir.Value, top: ir.Value, log: ir.Value) -> ir.Value:
        return narrow(arith.subf(_shifted(item, top), log), element)

    return [along(value, [greatest, logarithm], (axis,), body, outs[0])]


def _mean(value: ir.Value, axes: tuple[int, ...]) -> ir.Value:
    total = summed(value, axes)
    count = python_math.prod(shape_of(value)[axis] for axis in axes)
    return elementwise_over([total], lambda item: arith.divf(item, number(count, item.type)), total)


def _inverse_deviation(mean_square: ir.Value, epsilon: float) -> ir.Value:
    def body(item: ir.Value) -> ir.Value:
        return arith.divf(number(1, item.type), math.sqrt(arith.addf(item, number(epsilon, item.type))))

    return elementwise_over([mean_square], body, mean_square)


def _scaled(
    value: ir.Value,
    rows: Sequence[ir.Value],
    columns: Sequence[ir.Value | None],
    axes: tuple[int, ...],
    body,
    out: ir.Value,
) -> ir.Value:
    """Emits `body(element, one per row tensor, one or None per column tensor)` of every element."""
    shape = shape_of(value)
    loops = dims(len(shape))
    present = [column for column in columns if column is not None]
    kept = [loop for axis, loop in enumerate(loops) if axis not in axes]
    maps = [loops, *[kept] * len(rows), *(broadcast_map(shape_of(column), shape) for column in present), loops]

    def compute(element: ir.Value, *others: ir.Value) -> ir.Value:
        given = iter(others[len(rows) : -1])
        factors = [None if column is None else widen(next(given)) for column in columns]
        return narrow(body(widen(element), *others[: len(rows)], *factors), element.type)

    return structured([value, *rows, *present], [out], maps, "p" * len(shape), compute)[0]


def _affine(normal: ir.Value, scale: ir.Value | None, bias: ir.Value | None) -> ir.Value:
    contract = flags(CONTRACT)
    normal = normal if scale is None else arith.mulf(normal, scale, fastmath=contract)
    return normal if bias is None else arith.addf(normal, bias, fastmath=contract)


@LINALG.attach(ops.LayerNormOp)
def layer_norm(op: ops.LayerNormOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits the mean, the mean square of the differences, and the scaling. A row stays cached for its three passes."""
    value, scale, bias = inputs
    rank = len(shape_of(value))
    axes = tuple(range(op.axis % rank, rank))
    mean = _mean(value, axes)
    wide = element_type_of(mean)

    def squared(item: ir.Value, centre: ir.Value) -> ir.Value:
        difference = arith.subf(widen(item), centre)
        return arith.mulf(difference, difference, fastmath=flags(CONTRACT))

    squares = along(value, [mean], axes, squared, empty(shape_of(value), wide))
    inverse = _inverse_deviation(_mean(squares, axes), op.epsilon)

    def body(
        item: ir.Value, centre: ir.Value, factor: ir.Value, gain: ir.Value | None, offset: ir.Value | None
    ) -> ir.Value:
        return _affine(arith.mulf(arith.subf(item, centre), factor), gain, offset)

    return [_scaled(value, [mean, inverse], [scale, bias], axes, body, outs[0])]


@LINALG.attach(ops.RmsNormOp)
def rms_norm(op: ops.RmsNormOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits the mean square, and scales."""
    value, scale = inputs
    rank = len(shape_of(value))
    axes = tuple(range(op.axis % rank, rank))
    wide = scalars.compute_type(element_type_of(value))

    def squared(item: ir.Value) -> ir.Value:
        return arith.mulf(widen(item), widen(item), fastmath=flags(CONTRACT))

    inverse = _inverse_deviation(_mean(elementwise_over([value], squared, value, wide), axes), op.epsilon)

    def body(item: ir.Value, factor: ir.Value, gain: ir.Value | None) -> ir.Value:
        return _affine(arith.mulf(item, factor), gain, None)

    return [_scaled(value, [inverse], [scale], axes, body, outs[0])]


@LINALG.attach(ops.BatchNormOp)
def batch_norm(op: ops.BatchNormOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits a factor and an offset per channel, applied to every element."""
    value, scale, bias, mean, variance = inputs
    rank = len(shape_of(value))
    wide = scalars.compute_type(element_type_of(value))

    def factor(gain: ir.Value, spread: ir.Value) -> ir.Value:
        deviation = math.sqrt(arith.addf(widen(spread), number(op.epsilon, wide)))
        return arith.divf(widen(gain), deviation)

    factors = elementwise_over([scale, variance], factor, scale, wide)
    channel = dims(rank)[1 if op.layout == "channels_first" else rank - 1]
    maps = [dims(rank), [channel], [channel], [channel], dims(rank)]

    def body(item: ir.Value, centre: ir.Value, gain: ir.Value, offset: ir.Value, _: ir.Value) -> ir.Value:
        difference = arith.subf(widen(item), widen(centre))
        return narrow(_affine(difference, gain, widen(offset)), item.type)

    return structured([value, mean, factors, bias], [outs[0]], maps, "p" * rank, body)


@LINALG.attach(ops.LocalResponseNormOp)
def local_response_norm(op: ops.LocalResponseNormOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits the sum of squares over a window of channels, as a reduction over zero padding, and its power."""
    (value,) = inputs
    shape = shape_of(value)
    axis = 1 if op.layout == "channels_first" else len(shape) - 1
    wide = scalars.compute_type(element_type_of(value))
    low = [(op.size - 1) // 2 if position == axis else 0 for position in range(len(shape))]
    high = [op.size // 2 if position == axis else 0 for position in range(len(shape))]
    around = pad_with(value, low, high, number(0, element_type_of(value)))
    loops = dims(len(shape) + 1)
    window = [loop + loops[-1] if position == axis else loop for position, loop in enumerate(loops[:-1])]

    def squares(item: ir.Value, _: ir.Value, total: ir.Value) -> ir.Value:
        contract = flags(CONTRACT)
        return arith.addf(total, arith.mulf(widen(item), widen(item), fastmath=contract), fastmath=contract)

    extent = empty([op.size], wide)
    start = filled(number(0, wide), shape)
    iterators = "p" * len(shape) + "r"
    total = structured([around, extent], [start], [window, loops[-1:], loops[:-1]], iterators, squares)[0]

    def body(item: ir.Value, near: ir.Value) -> ir.Value:
        level = arith.addf(number(op.bias, wide), arith.mulf(number(op.alpha / op.size, wide), near))
        return narrow(_over_power(widen(item), level, op.beta), item.type)

    return [along(value, [total], (), body, outs[0])]


def _over_power(item: ir.Value, level: ir.Value, exponent: float) -> ir.Value:
    """Emits `item / level ** exponent` for a positive level; the usual exponent has faster code in f32."""
    kind = level.type
    if exponent != 0.75:
        return arith.divf(item, math.exp(arith.mulf(number(exponent, kind), math.log(level))))
    if isinstance(kind, ir.F32Type):
        return arith.mulf(item, math.powf(level, number(-0.75, kind), fastmath=flags(AFN)))
    return arith.divf(item, math.sqrt(arith.mulf(level, math.sqrt(level))))
