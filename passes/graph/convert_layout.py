"""The pass `stepwell-convert-layout`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mlir import ir

from ...dialects.core import Op
from ...dialects.stepwell.contraction import ConvOp, ConvTransposeOp
from ...dialects.stepwell.movement import ResizeOp, TransposeOp
from ...dialects.stepwell.normalization import BatchNormOp, LocalResponseNormOp
from ...dialects.stepwell.pooling import PoolOp
from ..base import Pass, register
from ..rewriting import Pattern, Replacement, apply_patterns
from .values import rank_of

CHANNELS_LAST = "channels_last"


@register
@dataclass(frozen=True)
class ConvertLayoutPass(Pass):
    """Let every op on images work with the channels last, with transposes around it.

    The transposes between two such ops cancel; `stepwell-propagate-transposes` brings them together.

    ```mlir
    %0 = "stepwell.max_pool"(%x) {...} : (tensor<1x8x4x6xf32>) -> tensor<1x8x2x3xf32>
    // -->
    %0 = "stepwell.transpose"(%x) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x8x4x6xf32>) -> tensor<1x4x6x8xf32>
    %1 = "stepwell.max_pool"(%0) {layout = "channels_last", ...} : (tensor<1x4x6x8xf32>) -> tensor<1x2x3x8xf32>
    %2 = "stepwell.transpose"(%1) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x2x3x8xf32>) -> tensor<1x8x2x3xf32>
    ```

    Attributes:
        layout: where the channels go.
    """

    name = "stepwell-convert-layout"
    layout: Literal["channels_last"] = CHANNELS_LAST

    def run(self, op: ir.Operation) -> None:
        """Applies the pattern to every op that has a layout."""
        apply_patterns(op, (ChannelsLast(),))


class ChannelsLast(Pattern[Op]):
    """op(x, channels_first) --> transpose(op(transpose(x), channels_last))"""

    root = (ConvOp, ConvTransposeOp, PoolOp, ResizeOp, LocalResponseNormOp, BatchNormOp)

    def rewrite(self, op: Op) -> Replacement:
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
