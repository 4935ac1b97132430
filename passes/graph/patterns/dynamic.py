"""Ops with dynamic shape operands, replaced by their static forms once those operands are constants."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from ....dialects.dims import Dim, is_static
from ....dialects.stepwell.movement import (
    BroadcastToOp,
    DynamicBroadcastToOp,
    DynamicPadOp,
    DynamicReshapeOp,
    DynamicResizeOp,
    DynamicSliceOp,
    ExpandDimsOp,
    PadOp,
    ReshapeOp,
    ResizeOp,
    ReverseOp,
    SliceOp,
    SqueezeOp,
)
from ....dialects.stepwell.movement.dynamic import slice_bounds
from ....dialects.stepwell.movement.resizing import resolve_sizes
from ....dialects.stepwell.shape import FillOp
from ....sizes.extrema import greatest
from ...ir.rewriting import Pattern, Refusal, Replacement
from ..values import constant, constant_of, numbers_of, splat_of, static_shape


class ReshapeToStatic(Pattern):
    """dynamic_reshape(x, shape) | squeeze(x) | expand_dims(x) --> reshape(x), if the result's shape is known"""

    root = (DynamicReshapeOp, SqueezeOp, ExpandDimsOp)

    def rewrite(self, op: DynamicReshapeOp | SqueezeOp | ExpandDimsOp) -> Replacement:
        shape = static_shape(op.result)
        if shape is None:
            return Refusal("the shape of the result is not known")
        return ReshapeOp(op.input, shape=shape).result


class BroadcastToStatic(Pattern[DynamicBroadcastToOp]):
    """dynamic_broadcast_to(x, shape) --> broadcast_to(x), if the result's shape is known"""

    root = DynamicBroadcastToOp

    def rewrite(self, op: DynamicBroadcastToOp) -> Replacement:
        shape = static_shape(op.result)
        if shape is None:
            return Refusal("the shape of the result is not known")
        return BroadcastToOp(op.input, shape=shape).result


class FillToBroadcast(Pattern[FillOp]):
    """fill(shape) --> broadcast_to(constant), if the shape is made of expressions over sizes"""

    root = FillOp

    def rewrite(self, op: FillOp) -> Replacement:
        shape = static_shape(op.result)
        if shape is None:
            return Refusal("the shape of the result is not known")
        return None if is_static(shape) else BroadcastToOp(constant(op.value.reshape(())), shape=shape).result


class SliceToStatic(Pattern[DynamicSliceOp]):
    """dynamic_slice(x, starts, ends, axes, steps) --> slice(x), with a reverse(x) before it for negative steps"""

    root = DynamicSliceOp

    def rewrite(self, op: DynamicSliceOp) -> Replacement:
        shape, starts, ends = static_shape(op.input), numbers_of(op.starts), numbers_of(op.ends)
        axes, steps = constant_of(op.axes), constant_of(op.steps)
        if shape is None or starts is None or ends is None:
            return Refusal("the bounds or the shape of the input are not known")
        if (op.axes is not None and axes is None) or (op.steps is not None and steps is None):
            return Refusal("the axes or the steps are not known")
        bounds: list[tuple[Dim, Dim, int]] = [(0, dim, 1) for dim in shape]
        for index, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            axis = (index if axes is None else int(axes[index])) % len(shape)
            step = 1 if steps is None else int(steps[index])
            bounds[axis] = slice_bounds(shape[axis], start, end, step)
        return _slice(op.input, shape, bounds)


def _slice(value: ir.Value, shape: Sequence[Dim], bounds: list[tuple[Dim, Dim, int]]) -> ir.Value:
    backwards = tuple(axis for axis, (_, _, step) in enumerate(bounds) if step < 0)
    if backwards:
        value = ReverseOp(value, axes=backwards).result
    for axis in backwards:
        start, stop, step = bounds[axis]
        bounds[axis] = (shape[axis] - 1 - start, shape[axis] - 1 - stop, -step)
    starts = tuple(start for start, _, _ in bounds)
    stops = tuple(greatest((start, stop)) for start, stop, _ in bounds)
    return SliceOp(value, starts=starts, stops=stops, steps=tuple(step for _, _, step in bounds)).result


class PadToStatic(Pattern[DynamicPadOp]):
    """dynamic_pad(x, pads, value, axes) --> pad(x)"""

    root = DynamicPadOp

    def rewrite(self, op: DynamicPadOp) -> Replacement:
        pads, axes, value = numbers_of(op.pads), constant_of(op.axes), splat_of(op.value)
        rank = ir.RankedTensorType(op.input.type).rank
        if pads is None or (op.axes is not None and axes is None):
            return Refusal("the pads are not known")
        if op.value is not None and value is None:
            return Refusal("the padding value is not known")
        if isinstance(value, int) and float(value) != value:
            return Refusal(f"the padding value {value} has more digits than the attribute of pad")
        along = list(range(rank)) if axes is None else [int(axis) % rank for axis in axes]
        low: list[Dim] = [0] * rank
        high: list[Dim] = [0] * rank
        for index, axis in enumerate(along):
            low[axis], high[axis] = pads[index], pads[index + len(along)]
        return PadOp(op.input, low=tuple(low), high=tuple(high), mode=op.mode, value=float(value or 0)).result


class ResizeToStatic(Pattern[DynamicResizeOp]):
    """dynamic_resize(x, scales | sizes) --> resize(x)"""

    root = DynamicResizeOp

    def rewrite(self, op: DynamicResizeOp) -> Replacement:
        shape, scales, sizes = static_shape(op.input), constant_of(op.scales), numbers_of(op.sizes)
        if shape is None or (scales is None and sizes is None):
            return Refusal("the sizes or the shape of the input are not known")
        attributes = op.attribute_values()
        full_sizes, full_scales = resolve_sizes(shape, scales, sizes, attributes.pop("axes"))
        return ResizeOp(op.input, sizes=full_sizes, scales=full_scales, **attributes).result


PATTERNS: tuple[Pattern, ...] = (
    ReshapeToStatic(),
    BroadcastToStatic(),
    FillToBroadcast(),
    SliceToStatic(),
    PadToStatic(),
    ResizeToStatic(),
)
