"""Patterns about the taps of convolutions."""

from __future__ import annotations

from mlir import ir

from ....dialects.stepwell.contraction import ConvOp
from ....dialects.stepwell.movement import SliceOp
from ....dialects.stepwell.windows import split_layout
from ...ir.rewriting import Pattern, Replacement
from ..values import static_shape


class DropTapsOnPadding(Pattern[ConvOp]):
    """conv(x, w) --> conv(x, slice(w)), without outer taps that only read padding

    Such taps occur in deep layers over few frames, and in dilated convolutions over small images.
    """

    root = ConvOp

    def rewrite(self, op: ConvOp) -> Replacement:
        image, weight, result = map(static_shape, (op.input, op.weight, op.result))
        if image is None or weight is None or result is None:
            return None
        _, _, extents = split_layout(image, op.layout)
        _, _, positions = split_layout(result, op.layout)
        rank = len(extents)
        starts, stops, pads = [0] * rank, list(weight[2:]), list(op.pads)
        for axis in range(rank):
            first, last, step = op.pads[axis], (positions[axis] - 1) * op.strides[axis], op.dilations[axis]
            # Tap t reads the elements from t * step - first to t * step - first + last. If the first tap is dropped,
            # the padding shrinks by `step`.
            while stops[axis] - starts[axis] > 1 and pads[axis] >= step and starts[axis] * step - first + last < 0:
                starts[axis], pads[axis] = starts[axis] + 1, pads[axis] - step
            while (
                stops[axis] - starts[axis] > 1
                and pads[rank + axis] >= step
                and (stops[axis] - 1) * step - first >= extents[axis]
            ):
                stops[axis], pads[rank + axis] = stops[axis] - 1, pads[rank + axis] - step
        if pads == list(op.pads):
            return None
        kept = _taps(op.weight, weight, starts, stops)
        return ConvOp(op.input, kept, op.bias, **{**op.attribute_values(), "pads": tuple(pads)}).result


PATTERNS: tuple[Pattern, ...] = (DropTapsOnPadding(),)


def _taps(weight: ir.Value, shape: tuple[int, ...], starts: list[int], stops: list[int]) -> ir.Value:
    """The taps of a weight from `starts` up to `stops`."""
    ends = (*shape[:2], *stops)
    return SliceOp(weight, starts=(0, 0, *starts), stops=ends, steps=(1,) * len(shape)).result
