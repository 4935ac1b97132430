"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir

from ....dialects.core import Op
from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.movement import ExpandDimsOp, ResampleOp, SqueezeOp
from ....dialects.stepwell.pooling import AveragePoolOp, MaxPoolIndicesOp, MaxPoolOp, SumPoolOp
from ....dialects.stepwell.reduction import ReduceMeanOp
from ...build import dtype, emit, known_dim, rank, scalar
from ..node import AtenNode
from ..registry import Handler, imports


def _pooled(op: type[Op], dimensions: int, input: ir.Value, window: dict[str, Any]) -> ir.Value:
    """Applies a window to the last dimensions of a tensor (batch, channels, spatial...), or without a batch."""
    batched = emit(ExpandDimsOp, input, axes=(0,)) if rank(input) == dimensions + 1 else input
    made = emit(op, batched, **window)
    return emit(SqueezeOp, made, axes=(0,)) if rank(input) == dimensions + 1 else made


def _window(
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


def _max_pool(dimensions: int) -> Handler:
    def handler(
        node: AtenNode,
        input: ir.Value,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        ceil_mode: bool,
    ) -> tuple[ir.Value | None, ...]:
        window = _window(dimensions, kernel_size, stride, padding, dilation, ceil_mode)
        made = _pooled(MaxPoolOp, dimensions, input, window)
        return made, _pooled(MaxPoolIndicesOp, dimensions, input, window) if node.is_used(1) else None

    return handler


def _average_pool(dimensions: int) -> Handler:
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
        window = _window(dimensions, kernel_size, stride, padding, [1], ceil_mode)
        if divisor_override is None:
            return _pooled(AveragePoolOp, dimensions, input, {**window, "count_include_pad": count_include_pad})
        total = _pooled(SumPoolOp, dimensions, input, window)
        return emit(ew.DivOp, total, scalar(divisor_override, total))

    return handler


def _adaptive(dimensions: int) -> Handler:
    def handler(node: AtenNode, input: ir.Value, output_size: Sequence[int]) -> ir.Value:
        sizes = _all(output_size, dimensions)
        first = rank(input) - dimensions
        if all(size == 1 for size in sizes):
            return emit(ReduceMeanOp, input, axes=tuple(range(first, rank(input))), keepdims=True)
        what = "the extent of an image of adaptive pooling"
        extents = [known_dim(input, first + axis, what) for axis in range(dimensions)]
        if all(size and extent % size == 0 for size, extent in zip(sizes, extents, strict=True)):
            kernel = [extent // size for size, extent in zip(sizes, extents, strict=True)]
            window = _window(dimensions, kernel, kernel, [0], [1], False)
            return _pooled(AveragePoolOp, dimensions, input, window)
        for axis, (size, extent) in enumerate(zip(sizes, extents, strict=True)):
            input = _averaged(node, input, first + axis, size, extent)
        return input

    return handler


def _averaged(node: AtenNode, input: ir.Value, axis: int, size: int, extent: int) -> ir.Value:
    """The means of `size` intervals of a dimension, which may overlap."""
    starts = np.arange(size) * extent // size
    stops = -(-(np.arange(1, size + 1) * extent) // size)
    terms = np.arange(int((stops - starts).max(initial=1)))[:, None]
    indices = np.minimum(starts + terms, extent - 1)
    kind = np.float64 if dtype(input) == np.float64 else np.float32
    weights = np.where(starts + terms < stops, 1 / np.maximum(stops - starts, 1), 0).astype(kind)
    tables = (
        node.importer.weight(f"{node.name}.{name}.{axis}", table)
        for name, table in (("indices", indices), ("weights", weights))
    )
    return emit(ResampleOp, input, *tables, axis=axis)


for _dimensions in (1, 2, 3):
    imports(f"aten.avg_pool{_dimensions}d.default")(_average_pool(_dimensions))
for _dimensions in (2, 3):
    imports(f"aten.max_pool{_dimensions}d_with_indices.default")(_max_pool(_dimensions))
    imports(f"aten._adaptive_avg_pool{_dimensions}d.default")(_adaptive(_dimensions))
imports("aten.adaptive_avg_pool1d.default")(_adaptive(1))
