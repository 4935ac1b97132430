"""Derivatives of ops whose shapes or bounds are operands, if these are known; other passes make such ops static."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from ....dialects.stepwell.constant import ConstantOp
from ....dialects.stepwell.movement import DynamicBroadcastToOp, DynamicReshapeOp, DynamicSliceOp, ReverseOp
from ....dialects.stepwell.movement.dynamic import slice_range
from ...ir.rewriting import defining_op
from ...ir.values import shape_of
from ..build import dilated, pad, reshape
from ..derivative import DERIVATIVE, Gradients, NotDifferentiableError


@DERIVATIVE.attach(DynamicReshapeOp)
def reshaped(op: DynamicReshapeOp, gradient: ir.Value) -> Gradients:
    """reshape(g), None"""
    return (lambda: reshape(gradient, shape_of(op.input)), None)


@DERIVATIVE.attach(DynamicBroadcastToOp)
def broadcast(op: DynamicBroadcastToOp, gradient: ir.Value) -> Gradients:
    """The sum of g over the copies, None"""
    return (lambda: gradient, None)


@DERIVATIVE.attach(DynamicSliceOp)
def box(op: DynamicSliceOp, gradient: ir.Value) -> Gradients:
    """g with zeros between and around its elements, None, None, None, None"""

    def build() -> ir.Value:
        shape = shape_of(op.input)
        starts, ends = _numbers(op.starts), _numbers(op.ends)
        axes = range(len(starts)) if op.axes is None else _numbers(op.axes)
        steps = [1] * len(starts) if op.steps is None else _numbers(op.steps)
        taken = [range(size) for size in shape]
        for axis, *bounds in zip(axes, starts, ends, steps, strict=True):
            taken[axis % len(shape)] = slice_range(shape[axis % len(shape)], *bounds)
        backwards = tuple(axis for axis, chosen in enumerate(taken) if chosen.step < 0)
        found = ReverseOp(gradient, axes=backwards).result if backwards else gradient
        taken = [chosen[::-1] if chosen.step < 0 else chosen for chosen in taken]
        found = dilated(found, [chosen.step for chosen in taken])
        low = [chosen.start if chosen else 0 for chosen in taken]
        return pad(found, low, [size - at - own for size, at, own in zip(shape, low, shape_of(found), strict=True)])

    return build, None, None, None, None


def _numbers(value: ir.Value) -> Sequence[int]:
    known = defining_op(value, ConstantOp)
    if known is None:
        raise NotDifferentiableError("its bounds are computed")
    return [int(item) for item in known.value.reshape(-1)]
