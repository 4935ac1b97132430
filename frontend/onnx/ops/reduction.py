"""Reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from mlir import ir

from ....dialects.core import Op
from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.movement import ReverseOp, SqueezeOp
from ....dialects.stepwell.reduction import ArgmaxOp, ReduceMaxOp, ReduceMeanOp, ReduceMinOp, ReduceProdOp, ReduceSumOp
from ...build import cast, dims_of, dtype, emit, integers, normal_axis, rank, reshaped, running, scalar
from ..nodes.node import Node
from ..nodes.registry import OnnxHandler, imports
from .parts.spans import REDUCTIONS, span_of

_Reduction = Callable[[ir.Value, tuple[int, ...], bool], ir.Value]


def _plain(op: type[Op]) -> _Reduction:
    return lambda input, axes, keepdims: emit(op, input, axes=axes, keepdims=keepdims)


def _absolute_sum(input: ir.Value, axes: tuple[int, ...], keepdims: bool) -> ir.Value:
    return emit(ReduceSumOp, emit(ew.AbsOp, input), axes=axes, keepdims=keepdims)


def _square_sum(input: ir.Value, axes: tuple[int, ...], keepdims: bool) -> ir.Value:
    return emit(ReduceSumOp, emit(ew.MulOp, input, input), axes=axes, keepdims=keepdims)


def _norm(input: ir.Value, axes: tuple[int, ...], keepdims: bool) -> ir.Value:
    return emit(ew.SqrtOp, _square_sum(input, axes, keepdims))


def _log_sum(input: ir.Value, axes: tuple[int, ...], keepdims: bool) -> ir.Value:
    return emit(ew.LogOp, emit(ReduceSumOp, input, axes=axes, keepdims=keepdims))


def _log_sum_exp(input: ir.Value, axes: tuple[int, ...], keepdims: bool) -> ir.Value:
    """m + log(sum(exp(x - m))) for the maximum m, which cannot overflow; an infinite maximum is replaced by 0."""
    largest = emit(ReduceMaxOp, input, axes=axes, keepdims=True)
    is_infinite = emit(ew.EqualOp, emit(ew.AbsOp, largest), scalar(np.inf, largest))
    largest = emit(ew.SelectOp, is_infinite, scalar(0, largest), largest)
    total = emit(ReduceSumOp, emit(ew.ExpOp, emit(ew.SubOp, input, largest)), axes=axes, keepdims=True)
    result = emit(ew.AddOp, largest, emit(ew.LogOp, total))
    return result if keepdims or not axes else emit(SqueezeOp, result, axes=axes)


def _in_floats(reduction: _Reduction) -> _Reduction:
    """A reduction computed in f64 if the input is integer, as its result is not; it is rounded towards zero."""

    def reduced(input: ir.Value, axes: tuple[int, ...], keepdims: bool) -> ir.Value:
        kind = dtype(input)
        if kind.kind not in "iu":
            return reduction(input, axes, keepdims)
        return cast(reduction(cast(input, np.dtype(np.float64)), axes, keepdims), kind)

    return reduced


_REDUCTIONS: dict[str, tuple[_Reduction, int]] = {
    "ReduceL1": (_absolute_sum, 18),
    "ReduceL2": (_in_floats(_norm), 18),
    "ReduceLogSum": (_in_floats(_log_sum), 18),
    "ReduceLogSumExp": (_in_floats(_log_sum_exp), 18),
    "ReduceMax": (_plain(ReduceMaxOp), 18),
    "ReduceMean": (_plain(ReduceMeanOp), 18),
    "ReduceMin": (_plain(ReduceMinOp), 18),
    "ReduceProd": (_plain(ReduceProdOp), 18),
    "ReduceSum": (_plain(ReduceSumOp), 13),
    "ReduceSumSquare": (_square_sum, 18),
}
"""The reduction, and the opset from which on its axes are an input instead of an attribute."""


def _by_attribute(reduction: _Reduction) -> OnnxHandler:
    return lambda node, input: _reduced(node, reduction, input, node.attribute("axes"))


def _by_input(reduction: _Reduction) -> OnnxHandler:
    def handler(node: Node, input: ir.Value, axes: ir.Value | None = None) -> ir.Value:
        return _reduced(node, reduction, input, None if axes is None else node.integers(axes, "axes"))

    return handler


for _name, (_reduction, _since) in _REDUCTIONS.items():
    imports(_name)(_by_attribute(_reduction))
    imports(_name, since=_since)(_by_input(_reduction))


def _reduced(node: Node, reduction: _Reduction, input: ir.Value, axes: Sequence[int] | None) -> ir.Value:
    """Applies a reduction; without axes over all dimensions, or over none if the node requests it (still mapping)."""
    without_axes = () if node.attribute("noop_with_empty_axes", 0) else tuple(range(rank(input)))
    chosen = tuple(normal_axis(axis, rank(input)) for axis in axes) if axes else without_axes
    keepdims, span = bool(node.attribute("keepdims")), span_of(input)
    if span is not None and node.op_type in REDUCTIONS and span.axis in chosen:
        return span.reduced(node.op_type, chosen, keepdims)
    return reduction(input, chosen, keepdims)


@imports("ArgMax", "ArgMin")
def index_of_extreme(node: Node, input: ir.Value) -> ir.Value:
    """ArgMax and ArgMin: the first index of the extreme element, or the last one if the node requests it.

    The last index is `extent - 1` minus the first index in the reversed tensor.
    """
    keepdims, axis = bool(node.attribute("keepdims")), normal_axis(node.attribute("axis"), rank(input))
    ranked = input if node.op_type == "ArgMax" else _descending(input)
    if not node.attribute("select_last_index", 0):
        return emit(ArgmaxOp, ranked, axis=axis, keepdims=keepdims)
    first = emit(ArgmaxOp, emit(ReverseOp, ranked, axes=(axis,)), axis=axis, keepdims=keepdims)
    extent = reshaped(dims_of(input, axis, axis + 1), integers([]))
    return emit(ew.SubOp, emit(ew.SubOp, extent, scalar(1, extent)), first)


def _descending(input: ir.Value) -> ir.Value:
    """The elements in reverse order of size; for integers ~x, which unlike -x cannot overflow."""
    return emit(ew.NegOp if dtype(input).kind not in "iu" else ew.NotOp, input)


@imports("CumSum", "CumProd")
def cumulative(node: Node, input: ir.Value, axis: ir.Value) -> ir.Value:
    """CumSum and CumProd."""
    return running(
        input,
        normal_axis(node.integers(axis, "axis")[0], rank(input)),
        "sum" if node.op_type == "CumSum" else "product",
        bool(node.attribute("reverse")),
        bool(node.attribute("exclusive")),
    )
