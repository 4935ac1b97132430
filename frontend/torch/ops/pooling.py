"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir

from ....dialects.core import Op
from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.movement import DynamicBroadcastToOp, ExpandDimsOp, SqueezeOp
from ....dialects.stepwell.pooling import AveragePoolOp, MaxPoolIndicesOp, MaxPoolOp, SumPoolOp
from ....dialects.stepwell.reduction import ArgmaxOp, ReduceMeanOp
from ....dialects.types import is_float
from ...build import cast, constant, dtype, emit, gathered, known_number, rank, scalar, shape_of
from ...formulas import Formula
from ...index_arithmetic import elements, numbers
from ..node import AtenNode
from ..registry import AtenHandler, imports
from .reduction import nan_first
from .tables import IntervalTable, by_tables


def pooled(op: type[Op], dimensions: int, input: ir.Value, window: dict[str, Any]) -> ir.Value:
    """Applies a window to the last dimensions of a tensor (batch, channels, spatial...), or without a batch."""
    batched = emit(ExpandDimsOp, input, axes=(0,)) if rank(input) == dimensions + 1 else input
    made = emit(op, batched, **window)
    return emit(SqueezeOp, made, axes=(0,)) if rank(input) == dimensions + 1 else made


def window_of(
    dimensions: int,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> dict[str, Any]:
    """A window's attributes: a single number counts for all dimensions, and the stride by default is the extent."""
    kernel, pads, dilations = (_all(item, dimensions) for item in (kernel_size, padding, dilation))
    strides = _all(stride, dimensions) if stride else kernel
    return {
        "kernel": kernel,
        "strides": strides,
        "pads": (*pads, *pads),
        "dilations": dilations,
        "ceil_mode": ceil_mode,
    }


def _all(item: Sequence[int] | int, dimensions: int) -> tuple[int, ...]:
    given = (item,) if isinstance(item, int) else tuple(item)
    return given * (dimensions if len(given) == 1 else 1)


def _max_pool(dimensions: int) -> AtenHandler:
    def handler(
        node: AtenNode,
        input: ir.Value,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        ceil_mode: bool,
    ) -> tuple[ir.Value | None, ...]:
        window = window_of(dimensions, kernel_size, stride, padding, dilation, ceil_mode)
        made = pooled(MaxPoolOp, dimensions, input, window)
        return made, pooled(MaxPoolIndicesOp, dimensions, input, window) if node.is_used(1) else None

    return handler


def average_pool(dimensions: int) -> AtenHandler:
    """Returns the importer of average pooling over a number of spatial dimensions."""

    def handler(
        node: AtenNode,
        input: ir.Value,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None = None,
    ) -> ir.Value:
        window = window_of(dimensions, kernel_size, stride, padding, [1], ceil_mode)
        if not is_float(dtype(input)):
            return _integer_average(dimensions, input, window, count_include_pad, divisor_override)
        if divisor_override is None:
            return pooled(AveragePoolOp, dimensions, input, {**window, "count_include_pad": count_include_pad})
        total = pooled(SumPoolOp, dimensions, input, window)
        return emit(ew.DivOp, total, scalar(divisor_override, total))

    return handler


def _integer_average(
    dimensions: int, input: ir.Value, window: dict[str, Any], count_include_pad: bool, divisor: int | None
) -> ir.Value:
    """The means of integers, rounded towards zero."""
    wide = Formula(cast(input, np.float64))
    total = Formula(pooled(SumPoolOp, dimensions, wide.value, window))
    if divisor is not None:
        count = total * 0 + divisor
    else:  # the sum of ones over their mean
        ones = (wide * 0 + 1).value
        mean = pooled(AveragePoolOp, dimensions, ones, {**window, "count_include_pad": count_include_pad})
        count = (Formula(pooled(SumPoolOp, dimensions, ones, window)) / Formula(mean)).by(ew.RoundOp)
    return _truncated_quotient(total, count, dtype(input))


def _truncated_quotient(total: Formula, count: Formula, kind: np.dtype) -> ir.Value:
    """A quotient of whole numbers, rounded towards zero: a rounding error of the division must not move it."""
    made = (total / count).by(ew.RoundOp)
    is_over = abs(made * count) > abs(total)
    step = (made * 0 + 1).where(made > 0, -1)
    return cast((made - step).where(is_over, made).value, kind)


def adaptive_average_pool(dimensions: int) -> AtenHandler:
    """Returns the importer of average pooling to a given number of windows per spatial dimension."""

    def handler(node: AtenNode, input: ir.Value, output_size: Sequence[int]) -> ir.Value:
        sizes = _all(output_size, dimensions)
        first = rank(input) - dimensions
        if all(size == 1 for size in sizes):
            return emit(ReduceMeanOp, input, axes=tuple(range(first, rank(input))), keepdims=True)
        what = "the extent of an image of adaptive pooling"
        extents = [known_number(input, first + axis, what) for axis in range(dimensions)]
        if all(size and extent % size == 0 for size, extent in zip(sizes, extents, strict=True)):
            kernel = [extent // size for size, extent in zip(sizes, extents, strict=True)]
            window = window_of(dimensions, kernel, kernel, [0], [1], False)
            return pooled(AveragePoolOp, dimensions, input, window)
        return by_tables(node, input, [interval_table(*pair) for pair in zip(sizes, extents, strict=True)])

    return handler


def interval_table(size: int, extent: int) -> IntervalTable:
    """The indices and weights of the elements of `size` intervals of a dimension, which may overlap."""
    starts = np.arange(size) * extent // size
    stops = -(-(np.arange(1, size + 1) * extent) // size)
    terms = np.arange(int((stops - starts).max(initial=1)))[:, None]
    indices = np.minimum(starts + terms, extent - 1)
    return indices, np.where(starts + terms < stops, 1 / np.maximum(stops - starts, 1), 0)


def _adaptive_max(dimensions: int) -> AtenHandler:
    def handler(node: AtenNode, input: ir.Value, output_size: Sequence[int]) -> tuple[ir.Value | None, ...]:
        """The greatest elements of intervals, one dimension after another from the last one, and their indices."""
        first = rank(input) - dimensions
        place, step = None, 1
        for axis, size in reversed(list(enumerate(_all(output_size, dimensions)))):
            extent = known_number(input, first + axis, "the extent of an image of adaptive pooling")
            input, place = _greatest(node, input, place, first + axis, size, extent, step)
            step *= extent
        return input, place

    return handler


def _greatest(
    node: AtenNode, input: ir.Value, place: ir.Value | None, axis: int, size: int, extent: int, step: int
) -> tuple[ir.Value, ir.Value]:
    """The greatest elements of `size` intervals of a dimension, and their indices in images that are flat from it on.

    Two neighbours along the dimension lie `step` elements apart.
    """
    starts = np.arange(size) * extent // size
    stops = -(-(np.arange(1, size + 1) * extent) // size)
    terms = int((stops - starts).max(initial=1))
    # A short interval has its last element more than once.
    table = np.minimum(starts[:, None] + np.arange(terms), stops[:, None] - 1)
    indices = node.importer.weight(f"{node.name}.places.{axis}", table)
    candidates = gathered(input, indices, axis)
    chosen = emit(ArgmaxOp, nan_first(candidates, is_least=False), axis=axis + 1, keepdims=True)
    values = emit(SqueezeOp, elements(candidates, chosen, axis + 1), axes=(axis + 1,))
    if place is None:
        place = cast(emit(DynamicBroadcastToOp, numbers(input, axis), shape_of(input)), np.int64)
    else:
        own = emit(ew.MulOp, numbers(input, axis), constant(np.array(step, np.int64)))
        place = emit(ew.AddOp, place, own)
    places = emit(SqueezeOp, elements(gathered(place, indices, axis), chosen, axis + 1), axes=(axis + 1,))
    return values, places


for _dimensions in (1, 2, 3):
    imports(f"aten.avg_pool{_dimensions}d.default")(average_pool(_dimensions))
for _dimensions in (2, 3):
    imports(f"aten.max_pool{_dimensions}d_with_indices.default")(_max_pool(_dimensions))
    imports(f"aten._adaptive_avg_pool{_dimensions}d.default")(adaptive_average_pool(_dimensions))
    imports(f"aten.adaptive_max_pool{_dimensions}d.default")(_adaptive_max(_dimensions))
imports("aten.adaptive_avg_pool1d.default")(adaptive_average_pool(1))
