"""Data movement ops that can be dropped or replaced by a simpler op."""

from __future__ import annotations

from mlir import ir

from ....dialects.specs import size_of
from ....dialects.stepwell.contraction import ConvOp
from ....dialects.stepwell.movement import (
    BroadcastToOp,
    ConcatOp,
    GatherOp,
    PadOp,
    ReshapeOp,
    ResizeOp,
    ReverseOp,
    SliceOp,
    TileOp,
    TransposeOp,
)
from ...ir.rewriting import Pattern, Refusal, Replacement, defining_op
from ..values import constant_of, rank_of, static_shape


class DropIdentity(Pattern):
    """transpose(x) --> x, likewise reshape, slice, pad, broadcast_to, tile, reverse, resize, if they have no effect"""

    root = (TransposeOp, ReshapeOp, SliceOp, PadOp, BroadcastToOp, TileOp, ReverseOp, ResizeOp)

    def rewrite(self, op: TransposeOp) -> Replacement:
        if op.input.type != op.result.type or static_shape(op.input) is None:
            return None
        return op.input if _moves_nothing(op) else None


def _moves_nothing(op: ir.OpView) -> bool:
    match op:
        case TransposeOp():
            return op.permutation == tuple(range(len(op.permutation)))
        case ReverseOp():
            shape = static_shape(op.input)
            return shape is not None and all(shape[axis] <= 1 for axis in op.axes)
        case ResizeOp():
            return bool((op.scales == 1).all())
    # The other ops have no effect if they keep the shape.
    return True


class ReshapeOfReshape(Pattern[ReshapeOp]):
    """reshape(reshape(x)) --> reshape(x)"""

    root = ReshapeOp

    def rewrite(self, op: ReshapeOp) -> Replacement:
        inner = defining_op(op.input, ReshapeOp)
        return None if inner is None else ReshapeOp(inner.input, shape=op.shape).result


class TransposeOfTranspose(Pattern[TransposeOp]):
    """transpose(transpose(x, p), q) --> transpose(x, p[q])"""

    root = TransposeOp

    def rewrite(self, op: TransposeOp) -> Replacement:
        inner = defining_op(op.input, TransposeOp)
        if inner is None:
            return None
        first = inner.permutation
        return TransposeOp(inner.input, permutation=tuple(first[axis] for axis in op.permutation)).result


class TransposeOfUnitDims(Pattern[TransposeOp]):
    """transpose(x) --> reshape(x), if only unit dimensions change their position"""

    root = TransposeOp

    def rewrite(self, op: TransposeOp) -> Replacement:
        shape, result = static_shape(op.input), static_shape(op.result)
        if shape is None or result is None:
            return None
        moving = [axis for axis in op.permutation if shape[axis] != 1]
        return ReshapeOp(op.input, shape=result).result if moving == sorted(moving) else None


class SliceOfSlice(Pattern[SliceOp]):
    """slice(slice(x, a:b:s), c:d:t) --> slice(x, a+c*s : a+(d-1)*s+1 : s*t)"""

    root = SliceOp

    def rewrite(self, op: SliceOp) -> Replacement:
        inner = defining_op(op.input, SliceOp)
        if inner is None:
            return None
        starts, stops, steps = [], [], []
        for start, stop, step, begin, stride in zip(
            op.starts, op.stops, op.steps, inner.starts, inner.steps, strict=True
        ):
            starts.append(begin + start * stride)
            stops.append(begin + (stop - 1) * stride + 1 if stop > start else begin + start * stride)
            steps.append(stride * step)
        return SliceOp(inner.input, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps)).result


class SliceOfConcat(Pattern[SliceOp]):
    """slice(concat(x, y)) --> slice(x) | slice(y), if the slice lies in one of them"""

    root = SliceOp

    def rewrite(self, op: SliceOp) -> Replacement:
        concat = defining_op(op.input, ConcatOp)
        if concat is None:
            return None
        axis = concat.axis % len(op.starts)
        left = static_shape(concat.lhs)
        if left is None or op.starts[axis] >= op.stops[axis]:
            return None
        if op.stops[axis] <= left[axis]:
            return SliceOp(concat.lhs, starts=op.starts, stops=op.stops, steps=op.steps).result
        if op.starts[axis] < left[axis]:
            return Refusal("the slice takes from both operands of the concat")
        starts, stops = (_shifted(bounds, axis, -left[axis]) for bounds in (op.starts, op.stops))
        return SliceOp(concat.rhs, starts=starts, stops=stops, steps=op.steps).result


def _shifted(bounds: tuple[int, ...], axis: int, offset: int) -> tuple[int, ...]:
    return tuple(bound + offset if index == axis else bound for index, bound in enumerate(bounds))


class ConcatOfSlices(Pattern[ConcatOp]):
    """concat(slice(x, a:b), slice(x, b:c)) --> slice(x, a:c)"""

    root = ConcatOp

    def rewrite(self, op: ConcatOp) -> Replacement:
        lhs, rhs = defining_op(op.lhs, SliceOp), defining_op(op.rhs, SliceOp)
        if lhs is None or rhs is None or lhs.input != rhs.input:
            return None
        axis = op.axis % len(lhs.starts)
        others = [index for index in range(len(lhs.starts)) if index != axis]
        same = all(
            getattr(lhs, name)[i] == getattr(rhs, name)[i] for name in ("starts", "stops", "steps") for i in others
        )
        if not same or lhs.steps[axis] != 1 or rhs.steps[axis] != 1 or lhs.stops[axis] != rhs.starts[axis]:
            return None
        stops = tuple(rhs.stops[index] if index == axis else stop for index, stop in enumerate(lhs.stops))
        return SliceOp(lhs.input, starts=lhs.starts, stops=stops, steps=lhs.steps).result


class ConcatOfNothing(Pattern[ConcatOp]):
    """concat(x, empty) --> x"""

    root = ConcatOp

    def rewrite(self, op: ConcatOp) -> Replacement:
        left, right = static_shape(op.lhs), static_shape(op.rhs)
        if left is None or right is None:
            return None
        if right[op.axis % len(right)] == 0:
            return op.lhs
        return op.rhs if left[op.axis % len(left)] == 0 else None


class GatherOfConstantIndex(Pattern[GatherOp]):
    """gather(x, i) --> reshape(slice(x, i:i+1)), for one constant index or several consecutive ones"""

    root = GatherOp

    def rewrite(self, op: GatherOp) -> Replacement:
        indices, shape, result = constant_of(op.indices), static_shape(op.input), static_shape(op.result)
        if indices is None or shape is None or result is None or indices.size == 0:
            return None
        axis = op.axis % len(shape)
        run = [int(index) + (shape[axis] if index < 0 else 0) for index in indices.reshape(-1)]
        if run != list(range(run[0], run[0] + len(run))) or not 0 <= run[0] <= run[-1] < shape[axis]:
            return Refusal("the constant indices are not consecutive or out of range")
        starts = tuple(run[0] if index == axis else 0 for index in range(len(shape)))
        stops = tuple(run[-1] + 1 if index == axis else dim for index, dim in enumerate(shape))
        part = SliceOp(op.input, starts=starts, stops=stops, steps=(1,) * len(shape)).result
        return ReshapeOp(part, shape=result).result


class PadIntoConv(Pattern[ConvOp]):
    """conv(pad(x, 0), pads) --> conv(x, pads + the padding)"""

    root = ConvOp

    def rewrite(self, op: ConvOp) -> Replacement:
        pad = defining_op(op.input, PadOp)
        if pad is None:
            return None
        if pad.mode != "constant" or pad.value != 0:
            return Refusal(f"a convolution can only pad with zeros, not {pad.mode} {pad.value}")
        first = 2 if op.layout == "channels_first" else 1
        spatial = slice(first, first + len(op.strides))
        amounts = [*pad.low[spatial], *pad.high[spatial]]
        if sum(amounts) != sum((*pad.low, *pad.high)):
            return Refusal("the padding is not only on spatial dimensions")
        attributes = op.attribute_values()
        attributes["pads"] = tuple(own + more for own, more in zip(op.pads, amounts, strict=True))
        return ConvOp(pad.input, op.weight, op.bias, **attributes).result


class TileToBroadcast(Pattern[TileOp]):
    """tile(x) --> broadcast_to(x), if only unit dimensions are repeated"""

    root = TileOp

    def rewrite(self, op: TileOp) -> Replacement:
        shape, result = static_shape(op.input), static_shape(op.result)
        if shape is None or result is None:
            return None
        repeats_units = all(count == 1 or dim == 1 for dim, count in zip(shape, op.repeats, strict=True))
        return BroadcastToOp(op.input, shape=result).result if repeats_units else None


class BroadcastOfUnits(Pattern[BroadcastToOp]):
    """broadcast_to(x) --> reshape(x), if it only adds unit dimensions"""

    root = BroadcastToOp

    def rewrite(self, op: BroadcastToOp) -> Replacement:
        if static_shape(op.input) is None or rank_of(op.input) == rank_of(op.result):
            return None
        return ReshapeOp(op.input, shape=op.shape).result if size_of(op.input) == size_of(op.result) else None


PATTERNS: tuple[Pattern, ...] = (
    DropIdentity(),
    ReshapeOfReshape(),
    TransposeOfTranspose(),
    TransposeOfUnitDims(),
    SliceOfSlice(),
    SliceOfConcat(),
    ConcatOfSlices(),
    ConcatOfNothing(),
    GatherOfConstantIndex(),
    PadIntoConv(),
    TileToBroadcast(),
    BroadcastOfUnits(),
)
