"""The pass `stepwell-convert-layout`: moves the channels of images to the last dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mlir import ir

from ....dialects.core import Op
from ....dialects.stepwell.movement import ResizeOp, TransposeOp
from ...infra.base import Pass, register
from ...infra.decisions import Decisions
from ...infra.state import CompileState
from ...ir.functions import body_of, functions_with_bodies
from ...ir.rewriting import Pattern, Refusal, Replacement, apply_patterns
from ..values import rank_of
from .planar import IMAGE_OPS, PlanewiseConv, PointwiseToMatmul, planar_images

CHANNELS_LAST = "channels_last"


@register
@dataclass(frozen=True)
class ConvertLayoutPass(Pass):
    """Convert every op on images to channels-last layout, with transposes around it.

    The transposes between two such ops cancel; `stepwell-propagate-transposes` brings them together. Ops near the
    program's inputs and results stay channels-first if that is faster than transposes around them, or if the module's
    attribute `stepwell.decisions` names the layout of connected ops. There, convolutions of single pixels become
    products, depthwise ones `stepwell.planar_conv`.

    ```mlir
    %0 = "stepwell.max_pool"(%x) {...} : (tensor<1x8x4x6xf32>) -> tensor<1x8x2x3xf32>
    // -->
    %0 = "stepwell.transpose"(%x) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x8x4x6xf32>) -> tensor<1x4x6x8xf32>
    %1 = "stepwell.max_pool"(%0) {layout = "channels_last", ...} : (tensor<1x4x6x8xf32>) -> tensor<1x2x3x8xf32>
    %2 = "stepwell.transpose"(%1) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x2x3x8xf32>) -> tensor<1x8x2x3xf32>
    ```

    Attributes:
        layout: layout of the result.
    """

    name = "stepwell-convert-layout"
    layout: Literal["channels_last"] = CHANNELS_LAST

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Applies the patterns to every op that has a layout."""
        machine, decisions = state.machine, Decisions.of(op, state)
        mains = functions_with_bodies(op)
        kept = [image for main in mains for image in planar_images(body_of(main), machine, decisions)]
        apply_patterns(op, (PointwiseToMatmul(kept), PlanewiseConv(kept), ChannelsLast(kept)), state)


@dataclass(frozen=True)
class ChannelsLast(Pattern[Op]):
    """op(x, channels_first) --> transpose(op(transpose(x), channels_last)), except for `kept` results"""

    kept: list[ir.Value]
    root = IMAGE_OPS

    def rewrite(self, op: Op) -> Replacement:
        if op.operation.results[0] in self.kept:
            return Refusal("it takes less time plane by plane than with transposes around it")
        attributes = op.attribute_values()
        rank = rank_of(op.operation.results[0])
        if attributes["layout"] == CHANNELS_LAST or rank < 3:
            return None
        attributes["layout"] = CHANNELS_LAST
        to_last, to_first = (0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))
        if isinstance(op, ResizeOp):
            attributes["sizes"] = tuple(op.sizes[axis] for axis in to_last)
            attributes["scales"] = op.scales[list(to_last)]
        image, *others = op.operand_values()
        moved = TransposeOp(image, permutation=to_last).result
        result = type(op)(moved, *others, **attributes).operation.results[0]
        return TransposeOp(result, permutation=to_first).result
