"""The pipeline from phase `import` to phase `graph`: canonicalises, fuses and lays out an imported model."""

from __future__ import annotations

from collections.abc import Iterable

from ..infra.elements import PassElement
from ..infra.pipeline import Pipeline
from .apply_decisions import ApplyDecisionsPass
from .constants.fold_constants import FoldConstantsPass
from .constants.hoist_invariants import HoistInvariantsPass
from .constants.hoist_parameters import HoistParametersPass
from .convolutions.choose_winograd import ChooseWinogradPass
from .convolutions.fold_batch_norm import FoldBatchNormPass
from .convolutions.make_padding_explicit import MakePaddingExplicitPass
from .convolutions.merge_convolutions import MergeConvolutionsPass
from .layout.convert_layout import ConvertLayoutPass
from .layout.fold_transposes import FoldTransposesPass
from .layout.propagate_transposes import PropagateTransposesPass
from .layout.sink_movement import SinkMovementPass
from .packing.pack_weights import PackWeightsPass
from .products.factor_weights import FactorWeightsPass
from .products.join_columns import JoinColumnsPass
from .products.merge_projections import MergeProjectionsPass
from .products.multiply_bytes import MultiplyBytesPass
from .products.quantize_early import QuantizeEarlyPass
from .products.reduce_precision import ReducePrecisionPass
from .products.sum_few_rows import SumFewRowsPass
from .products.sum_single_columns import SumSingleColumnsPass
from .shapes.infer_shapes import InferShapesPass
from .simplification.canonicalize import CanonicalizePass
from .simplification.cse import CsePass
from .simplification.dce import DcePass
from .simplification.decompose import DecomposePass
from .simplification.fuse_composites import FuseCompositesPass

CLEAN_UP: tuple[PassElement, ...] = (CanonicalizePass(), CsePass(), DcePass())

COMPOSITES: tuple[PassElement, ...] = (
    # Shapes first, because most patterns need them; then shape arithmetic is constant and folds away.
    InferShapesPass(),
    # While weights are still computed from their bytes.
    MultiplyBytesPass(),
    FoldConstantsPass(),
    *CLEAN_UP,
    # When scales are constants, before images change their layout.
    QuantizeEarlyPass(),
    # Before ops become parts of composites or kernels, which are not hoisted out of loops.
    HoistInvariantsPass(),
    # Ops that no kernel computes as a whole are split early, so that the other passes can optimise the parts.
    DecomposePass(),
    # Composites are recognised in canonical form, before other rewrites destroy their patterns.
    FuseCompositesPass(),
)
"""The passes up to the recognition of composites."""

GRAPH_PIPELINE: tuple[PassElement, ...] = (
    *COMPOSITES,
    # Before the first pass that decides.
    ApplyDecisionsPass(),
    # Before the layout changes, because per-channel values are easy to recognise in the model's own layout.
    FoldBatchNormPass(),
    # After it, nothing is left between summed branches and their sum.
    MergeConvolutionsPass(),
    *CLEAN_UP,
    # All images become channels-last, so that a vector holds adjacent channels of one pixel; transposes remain where
    # images enter and leave the program.
    ConvertLayoutPass(),
    # Transposed convolutions become plain ones, in the layout in which the channels of a pixel are adjacent.
    DecomposePass(),
    PropagateTransposesPass(),
    *CLEAN_UP,
    # Last, because only transposes that did not cancel are folded into matmuls.
    FoldTransposesPass(),
    DcePass(),
    # After the weights of batch norms and of merged convolutions are final, and before others are merged.
    FactorWeightsPass(),
    DcePass(),
)


def in_precision(precision: str) -> Iterable[PassElement]:
    """The passes that convert products of float32 to a shorter type, after all products are known."""
    return [ReducePrecisionPass(precision), *([] if precision == "f32" else CLEAN_UP)]


def graph_pipeline(precision: str = "f32") -> Pipeline:
    """The passes from phase `import` to phase `graph`; `precision` is that of products of float32."""
    return Pipeline(
        (
            *GRAPH_PIPELINE,
            # After movement is in its final place, but while weights are still in the model's layout.
            MergeProjectionsPass(),
            DcePass(),
            *in_precision(precision),
            # After transposes have made the columns of groups contiguous.
            JoinColumnsPass(),
            # Before weights are packed for kernels that hold adjacent columns in a vector.
            SumSingleColumnsPass(),
            SumFewRowsPass(),
            # Winograd convolutions pad their input themselves.
            ChooseWinogradPass(),
            # Direct convolutions then read their windows without bounds checks.
            MakePaddingExplicitPass(),
            # Packs weights in the order of the micro-kernel; from here on the graph is target-specific.
            PackWeightsPass(widen_rows=True, in_kernels=True),
            # Remaining movement is least in the way of fusion after the other ops.
            SinkMovementPass(),
            CsePass(),
            DcePass(),
            # Last, when everything that is computed only from parameters exists.
            HoistParametersPass(),
        )
    )
