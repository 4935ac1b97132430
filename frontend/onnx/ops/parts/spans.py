"""Slices with computed bounds that are only reduced: code reduces all rows, those outside by a neutral element.

The number of rows of such a slice is not known before a run, so no code could hold it. EmbeddingBag is exported this
way.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from mlir import ir

from .....dialects.core import spec_of
from .....dialects.dims import is_static
from .....dialects.stepwell import elementwise as ew
from .....dialects.stepwell.movement import DynamicSliceOp
from .....dialects.stepwell.reduction import ReduceMaxOp, ReduceMinOp, ReduceSumOp
from .....dialects.types import is_float, is_integer
from ....build import cast, constant, dtype, emit, integers, normal_axis, rank, reshaped, scalar, shape
from ...survey import inner_graphs

REDUCTIONS = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"})
"""The operators that can skip rows."""


def only_reduced(graph: onnx.GraphProto, reduced: Collection[int] = ()) -> frozenset[str]:
    """The slices of a graph that only reductions read, in it and in its inner graphs.

    An output of an If counts as a slice: if the condition is known, the branch may return one.

    Args:
        graph: the graph.
        reduced: indices of its outputs that only reductions read.
    """
    slices = {name for node in graph.node if node.op_type in ("Slice", "If") for name in node.output}
    if not slices:
        return frozenset()
    others = {output.name for position, output in enumerate(graph.output) if position not in reduced}
    for node, is_data in _reads(graph):
        others.update(name for position, name in enumerate(node.input) if position or not is_data)
    for inner in (item for node in graph.node for item in inner_graphs(node)):
        others |= _returned(inner)
    return frozenset(slices - others)


def _reads(graph: onnx.GraphProto) -> Iterator[tuple[onnx.NodeProto, bool]]:
    """Yields all nodes in a graph and its inner graphs, and whether the node reduces its first input."""
    for node in graph.node:
        yield node, node.op_type in REDUCTIONS
        for inner in inner_graphs(node):
            yield from _reads(inner)


def _returned(graph: onnx.GraphProto) -> set[str]:
    names = {output.name for output in graph.output}
    return names.union(*(_returned(inner) for node in graph.node for inner in inner_graphs(node)))


@dataclass(frozen=True)
class Span:
    """Consecutive rows along one axis of a tensor.

    Attributes:
        source: the tensor; its extents are numbers.
        start: the first row, an i64 tensor of one element; a negative one counts from the end.
        stop: the row after the last one, likewise.
        axis: the axis.
    """

    source: ir.Value
    start: ir.Value
    stop: ir.Value
    axis: int

    def reduced(self, op_type: str, axes: tuple[int, ...], keepdims: bool) -> ir.Value:
        """Reduces the rows along `axes`, one of which is `axis`."""
        count = shape(self.source)[self.axis]
        assert isinstance(count, int)
        start, stop = (self._clamped(bound, count) for bound in (self.start, self.stop))
        along = [count if axis == self.axis else 1 for axis in range(rank(self.source))]
        rows = constant(np.arange(count, dtype=np.int64).reshape(along))
        is_inside = emit(ew.AndOp, emit(ew.GreaterEqualOp, rows, start), emit(ew.LessOp, rows, stop))
        op = {"ReduceMax": ReduceMaxOp, "ReduceMin": ReduceMinOp}.get(op_type, ReduceSumOp)
        kept = emit(ew.SelectOp, is_inside, self.source, scalar(op.neutral(dtype(self.source)), self.source))
        result = emit(op, kept, axes=axes, keepdims=keepdims)
        if op_type != "ReduceMean":
            return result
        others = math.prod(int(str(shape(self.source)[axis])) for axis in axes if axis != self.axis)
        number = emit(ew.MulOp, emit(ew.MaximumOp, emit(ew.SubOp, stop, start), scalar(0, stop)), scalar(others, stop))
        return emit(ew.DivOp, result, reshaped(cast(number, dtype(result)), integers([])))

    def _clamped(self, bound: ir.Value, count: int) -> ir.Value:
        from_end = emit(ew.AddOp, bound, scalar(count, bound))
        bound = emit(ew.SelectOp, emit(ew.LessOp, bound, scalar(0, bound)), from_end, bound)
        bound = emit(ew.MinimumOp, emit(ew.MaximumOp, bound, scalar(0, bound)), scalar(count, bound))
        return reshaped(bound, integers([1] * rank(self.source)))


def span_of(value: ir.Value) -> Span | None:
    """The rows that a slice takes along one axis, if their number is not known; else None."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != DynamicSliceOp.OPERATION_NAME or is_static(shape(value)):
        return None
    view = DynamicSliceOp(owner.operation)
    source, steps = view.input, None if view.steps is None else spec_of(view.steps).value
    axes = np.array([0]) if view.axes is None else spec_of(view.axes).value
    is_plain = view.steps is None or (steps is not None and (steps == 1).all())
    kind = dtype(source)
    if axes is None or shape(view.starts) != (1,) or shape(view.ends) != (1,) or not is_static(shape(source)):
        return None
    if not is_plain or not (is_float(kind) or is_integer(kind)) or 0 in shape(source):
        return None
    return Span(source, view.starts, view.ends, normal_axis(int(axes.item()), rank(source)))
