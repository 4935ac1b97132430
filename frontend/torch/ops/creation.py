"""Tensors made from numbers and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.shape import FillOp, RangeOp
from ....dialects.types import is_float
from ...build import cast, emit, scalar
from ...index_arithmetic import numbers
from ..node import AtenNode
from ..registry import imports
from ..symbols import scalar_size
from .arithmetic import as_value
from .movement import broadcast


@imports("aten.full.default", "aten.full_like.default", "aten.new_full.default")
def full(node: AtenNode, fill_value: Any) -> ir.Value:
    """A tensor filled with a number."""
    return _filled(node, fill_value)


@imports("aten.fill.Scalar", "aten.fill.Tensor")
def fill(node: AtenNode, value: Any) -> ir.Value:
    """A tensor filled with a number, in the shape of another tensor."""
    return _filled(node, value)


def _filled(node: AtenNode, number: Any) -> ir.Value:
    if isinstance(number, ir.Value):
        return broadcast(cast(number, node.dtype()), node.sizes())
    return emit(FillOp, node.shape(), value=np.array(number).astype(node.dtype()))


@imports("aten.zeros_like.default", "aten.zeros.default", "aten.new_zeros.default")
@imports("aten.empty.memory_format", "aten.empty_strided.default", "aten.empty_like.default", "aten.new_empty.default")
@imports("aten.new_empty_strided.default", "aten.empty_permuted.default")
def zeros(node: AtenNode, stride: Any = None, physical_layout: Any = None) -> ir.Value:
    """Zeros, also for tensors that torch leaves uninitialised."""
    return emit(FillOp, node.shape(), value=np.zeros((), node.dtype()))


@imports("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones(node: AtenNode) -> ir.Value:
    """Ones."""
    return emit(FillOp, node.shape(), value=np.ones((), node.dtype()))


@imports("aten.scalar_tensor.default")
def scalar_tensor(node: AtenNode, s: Any) -> ir.Value:
    """A number as a tensor."""
    return as_value(s, node.dtype())


@imports("aten.arange.start_step")
def arange(node: AtenNode, start: Any, end: Any, step: Any) -> ir.Value:
    """Numbers from a start, `step` apart, up to and excluding an end."""
    kind, (count,) = node.dtype(), node.sizes()
    limit = scalar_size(count)
    line = emit(RangeOp, scalar(0, limit), limit, scalar(1, limit))
    if not is_float(kind):
        line = cast(line, kind)
        line = line if isinstance(step, int) and step == 1 else emit(ew.MulOp, line, as_value(step, kind))
        return line if isinstance(start, int) and start == 0 else emit(ew.AddOp, line, as_value(start, kind))
    # In f64, as torch rounds each number once.
    wide = np.dtype(np.float64)
    scaled = emit(ew.MulOp, cast(line, wide), as_value(step, wide))
    return cast(emit(ew.AddOp, scaled, as_value(start, wide)), kind)


@imports("prims.iota.default")
def iota(node: AtenNode, length: Any, start: Any, step: Any) -> ir.Value:
    """`length` numbers, `step` apart."""
    return arange(node, start, None, step)


@imports("aten._local_scalar_dense.default")
def item(node: AtenNode, input: ir.Value) -> ir.Value:
    """The only element of a tensor as a number."""
    return input


@imports("aten.triu.default", "aten.tril.default")
def triangle(node: AtenNode, input: ir.Value, diagonal: int) -> ir.Value:
    """The elements on one side of a diagonal of each matrix, zeros on the other."""
    rank = len(node.results[0].shape)
    row, column = (numbers(input, axis) for axis in (rank - 2, rank - 1))
    bound = emit(ew.AddOp, row, scalar(diagonal, row)) if diagonal else row
    is_kept = emit(ew.GreaterEqualOp if "triu" in node.overload else ew.LessEqualOp, column, bound)
    return emit(ew.SelectOp, is_kept, input, scalar(0, input))
