"""Reductions and running totals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir

from ....dialects.core import Op
from ....dialects.dims import is_static
from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.reduction import ArgmaxOp, ReduceMaxOp, ReduceMeanOp, ReduceMinOp, ReduceProdOp, ReduceSumOp
from ....dialects.types import is_float
from ...build import cast, chained, constant, dtype, emit, line_of, rank, reshaped, running, scalar, shape
from ...index_arithmetic import extent
from ..node import AtenNode, axes_of, axis_of
from ..registry import imports


def _reduced(op: type[Op], value: ir.Value, axes: tuple[int, ...], keepdim: bool) -> ir.Value:
    return emit(op, value, axes=axes, keepdims=keepdim) if axes else value


def _axes(input: ir.Value, dim: Any) -> tuple[int, ...]:
    return axes_of(input, dim)


@imports("aten.sum.dim_IntList", "aten.sum.default")
def sum_of(node: AtenNode, input: ir.Value, dim: Any = None, keepdim: bool = False) -> ir.Value:
    """The sum; of integers and bools in i64."""
    return _reduced(ReduceSumOp, cast(input, node.dtype()), _axes(input, dim), keepdim)


@imports("aten.mean.dim", "aten.mean.default")
def mean(node: AtenNode, input: ir.Value, dim: Any = None, keepdim: bool = False) -> ir.Value:
    """The mean."""
    return _reduced(ReduceMeanOp, cast(input, node.dtype()), _axes(input, dim), keepdim)


@imports("aten.prod.dim_int", "aten.prod.default")
def product(node: AtenNode, input: ir.Value, dim: Any = None, keepdim: bool = False) -> ir.Value:
    """The product; of integers and bools in i64."""
    return _reduced(ReduceProdOp, cast(input, node.dtype()), _axes(input, dim), keepdim)


@imports("aten.amax.default", "aten.max.default")
def greatest(node: AtenNode, input: ir.Value, dim: Any = None, keepdim: bool = False) -> ir.Value:
    """The greatest element, NaN if one is."""
    return _reduced(ReduceMaxOp, input, _axes(input, dim), keepdim)


@imports("aten.amin.default", "aten.min.default")
def least(node: AtenNode, input: ir.Value, dim: Any = None, keepdim: bool = False) -> ir.Value:
    """The least element, NaN if one is."""
    return _reduced(ReduceMinOp, input, _axes(input, dim), keepdim)


@imports("aten.any.default", "aten.any.dim", "aten.any.dims", "aten._is_any_true.default")
def any_of(node: AtenNode, input: ir.Value, dim: Any = None, keepdim: bool = False) -> ir.Value:
    """True if an element is not 0; for bytes, 1 or 0."""
    axes = () if dim == [] else _axes(input, dim)
    return cast(_reduced(ReduceMaxOp, cast(input, np.bool_), axes, keepdim), node.dtype())


@imports("aten.all.default", "aten.all.dim", "aten.all.dims", "aten._is_all_true.default")
def all_of(node: AtenNode, input: ir.Value, dim: Any = None, keepdim: bool = False) -> ir.Value:
    """True if no element is 0; for bytes, 1 or 0."""
    axes = () if dim == [] else _axes(input, dim)
    return cast(_reduced(ReduceMinOp, cast(input, np.bool_), axes, keepdim), node.dtype())


def _ordered(value: ir.Value) -> ir.Value:
    """Values in the order of the input's that can be compared: bools as bytes."""
    return cast(value, np.uint8) if dtype(value).kind == "b" else value


def _descending(value: ir.Value) -> ir.Value:
    """Values in reverse order; for integers ~x, which unlike -x cannot overflow."""
    value = _ordered(value)
    return emit(ew.NegOp if is_float(dtype(value)) else ew.NotOp, value)


def nan_first(value: ir.Value, is_least: bool) -> ir.Value:
    """Ranks for `argmax`: the first NaN comes before all numbers."""
    ranked = _descending(value) if is_least else _ordered(value)
    if not is_float(dtype(value)):
        return ranked
    return emit(ew.SelectOp, emit(ew.EqualOp, value, value), ranked, scalar(np.nan, ranked))


@imports("aten.argmax.default")
def argmax(node: AtenNode, input: ir.Value, dim: int | None, keepdim: bool) -> ir.Value:
    """The index of the first greatest element, of the flat tensor without a dimension."""
    return _argument(node, input, dim, keepdim, is_least=False)


@imports("aten.argmin.default")
def argmin(node: AtenNode, input: ir.Value, dim: int | None, keepdim: bool) -> ir.Value:
    """The index of the first least element, of the flat tensor without a dimension."""
    return _argument(node, input, dim, keepdim, is_least=True)


def _argument(node: AtenNode, input: ir.Value, dim: int | None, keepdim: bool, is_least: bool) -> ir.Value:
    if rank(input) == 0:
        return constant(np.array(0, np.int64))
    if dim is None:
        flat = nan_first(line_of(input), is_least)
        return reshaped(emit(ArgmaxOp, flat, axis=0, keepdims=False), node.shape())
    return emit(ArgmaxOp, nan_first(input, is_least), axis=axis_of(input, dim), keepdims=keepdim)


@imports("aten.max.dim")
def max_along(node: AtenNode, input: ir.Value, dim: int, keepdim: bool) -> tuple[ir.Value | None, ...]:
    """The greatest element along a dimension, and its index."""
    return _extreme(node, input, dim, keepdim, is_least=False)


@imports("aten.min.dim")
def min_along(node: AtenNode, input: ir.Value, dim: int, keepdim: bool) -> tuple[ir.Value | None, ...]:
    """The least element along a dimension, and its index."""
    return _extreme(node, input, dim, keepdim, is_least=True)


def _extreme(node: AtenNode, input: ir.Value, dim: int, keepdim: bool, is_least: bool) -> tuple[ir.Value | None, ...]:
    values = _reduced(ReduceMinOp if is_least else ReduceMaxOp, input, axes_of(input, [dim]), keepdim)
    return values, _argument(node, input, dim, keepdim, is_least) if node.is_used(1) else None


@imports("aten.var.correction", "aten.var.dim")
def variance(
    node: AtenNode, input: ir.Value, dim: Any, keepdim: bool, correction: Any = None, unbiased: bool = True
) -> ir.Value:
    """The mean square of differences to the mean, over the number of elements less a correction."""
    less = (1 if unbiased else 0) if correction is None else correction
    return squared_deviation(input, _axes(input, dim), keepdim, less)[0]


@imports("aten.var_mean.correction")
def variance_and_mean(
    node: AtenNode, input: ir.Value, dim: Any, keepdim: bool, correction: Any = None
) -> tuple[ir.Value, ir.Value]:
    """The variance and the mean."""
    return squared_deviation(input, _axes(input, dim), keepdim, 1 if correction is None else correction)


def squared_deviation(
    input: ir.Value, axes: tuple[int, ...], keepdim: bool, correction: float
) -> tuple[ir.Value, ir.Value]:
    """The variance and the mean along dimensions; NaN or infinite without enough elements."""
    centre = _reduced(ReduceMeanOp, input, axes, True)
    apart = emit(ew.SubOp, input, centre)
    total = _reduced(ReduceSumOp, emit(ew.MulOp, apart, apart), axes, keepdim)
    mean = centre if keepdim else _reduced(ReduceMeanOp, input, axes, False)
    extents = tuple(shape(input)[axis] for axis in axes)
    if is_static(extents):
        count = int(np.prod([int(dim) for dim in extents if isinstance(dim, int)]))
        return emit(ew.DivOp, total, scalar(max(count - correction, 0), total)), mean
    elements = chained(ew.MulOp, [extent(input, axis) for axis in axes])
    degrees = emit(ew.SubOp, cast(elements, dtype(total)), scalar(correction, total))
    return emit(ew.DivOp, total, emit(ew.MaximumOp, degrees, scalar(0, total))), mean


@imports("aten.cumsum.default", "aten.cumprod.default")
def cumulative(node: AtenNode, input: ir.Value, dim: int) -> ir.Value:
    """Running sums or products."""
    value = cast(input, node.dtype())
    mode = "sum" if "cumsum" in node.overload else "product"
    return running(value, axis_of(input, dim), mode) if rank(input) else value


@imports("aten.logsumexp.default")
def log_sum_exp(node: AtenNode, input: ir.Value, dim: Sequence[int], keepdim: bool) -> ir.Value:
    """The logarithms of the sums of the exponentials along dimensions."""
    return reshaped(kept_log_sum_exp(cast(input, node.dtype()), axes_of(input, list(dim))), node.shape())


def kept_log_sum_exp(value: ir.Value, axes: tuple[int, ...]) -> ir.Value:
    """m + log(sum(exp(x - m))) for the maximum m, which cannot overflow; an infinite maximum is replaced by 0.

    The dimensions are kept, with one element each.
    """
    peak = _reduced(ReduceMaxOp, value, axes, True)
    is_infinite = emit(ew.EqualOp, emit(ew.AbsOp, peak), scalar(np.inf, peak))
    peak = emit(ew.SelectOp, is_infinite, scalar(0, peak), peak)
    total = _reduced(ReduceSumOp, emit(ew.ExpOp, emit(ew.SubOp, value, peak)), axes, True)
    return emit(ew.AddOp, peak, emit(ew.LogOp, total))
