"""The pipeline to the phase `graph`: from a model as it was imported to one that is canonical, fused and laid out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..pipeline import Element, Pipeline
from .canonicalize import CanonicalizePass
from .choose_winograd import ChooseWinogradPass
from .convert_layout import ConvertLayoutPass
from .cse import CsePass
from .dce import DcePass
from .decompose import DecomposePass
from .fold_batch_norm import FoldBatchNormPass
from .fold_constants import FoldConstantsPass
from .fold_transposes import FoldTransposesPass
from .fuse_composites import FuseCompositesPass
from .hoist_invariants import HoistInvariantsPass
from .hoist_parameters import HoistParametersPass
from .infer_shapes import InferShapesPass
from .join_columns import JoinColumnsPass
from .make_padding_explicit import MakePaddingExplicitPass
from .merge_convolutions import MergeConvolutionsPass
from .merge_projections import MergeProjectionsPass
from .pack_weights import PackWeightsPass
from .propagate_transposes import PropagateTransposesPass
from .reduce_precision import ReducePrecisionPass
from .sink_movement import SinkMovementPass
from .sum_single_columns import SumSingleColumnsPass

CLEAN_UP: tuple[Element, ...] = (CanonicalizePass(), CsePass(), DcePass())

GRAPH_PIPELINE: tuple[Element, ...] = (
    # Shapes first, as hardly a pattern fits without; then the shape arithmetic is constant and goes.
    InferShapesPass(),
    FoldConstantsPass(),
    *CLEAN_UP,
    # Before ops become parts of composites or kernels that stay in their loops.
    HoistInvariantsPass(),
    # What no kernel computes as a whole is taken apart while the other passes can still work on the parts.
    DecomposePass(),
    # Composites are recognised in canonical form, before other rewrites take the pattern apart.
    FuseCompositesPass(),
    # Before the layout changes: what is per channel is easily told while channels are where the model has them.
    FoldBatchNormPass(),
    # Then branches that add up have nothing between them and the sum.
    MergeConvolutionsPass(),
    *CLEAN_UP,
    # All images have their channels last, so that a vector holds neighbouring channels of one pixel; transposes are
    # left where images enter and leave the program.
    ConvertLayoutPass(),
    # Transposed convolutions become plain ones, in the layout that makes their pixels' channels neighbours.
    DecomposePass(),
    PropagateTransposesPass(),
    *CLEAN_UP,
    # Only those transposes that met no other are a matter for matmul.
    FoldTransposesPass(),
    DcePass(),
)


def gpu_graph_pipeline(precision: str = "f32", has_wgmma: bool = False) -> Pipeline:
    """The passes that make the phase `graph` of the phase `import`, for GPUs.

    Weights stay matrices, their columns innermost: blocks of threads take the tiles that they need. Kernels round to
    `tf32` as they multiply; warp groups take it only by lines along what is summed over.

    Args:
        precision: what products of float32 are computed in.
        has_wgmma: whether warp groups multiply.
    """
    return Pipeline(
        (
            *map(_for_gpu, GRAPH_PIPELINE),
            MergeProjectionsPass(),
            DcePass(),
            *([] if precision == "tf32" else _in_precision(precision)),
            # Padding stays with convolutions: what loads their windows knows the edges. One panel holds all columns,
            # but of bytes, whose lines tensor cores want along what is summed over.
            PackWeightsPass(WHOLE_ROWS, by_depth=has_wgmma and precision == "tf32", bytes_by_depth=True),
            SinkMovementPass(),
            CsePass(),
            DcePass(),
            HoistParametersPass(),
        )
    )


def _for_gpu(element: Element) -> Element:
    """The same, where it asks what kernels there are, of those for GPUs."""
    return replace(element, on_gpu=True) if isinstance(element, DecomposePass | FuseCompositesPass) else element


WHOLE_ROWS = 1 << 40
"""A vector so long that every row of a weight is one."""


def _in_precision(precision: str) -> Iterable[Element]:
    """What makes products of float32 products of something shorter, when it is settled which there are."""
    return [] if precision == "f32" else [ReducePrecisionPass(precision), *CLEAN_UP]


def graph_pipeline(vector_bytes: int, precision: str = "f32") -> Pipeline:
    """The passes that make the phase `graph` of the phase `import`.

    Args:
        vector_bytes: the width of the target's vector registers.
        precision: what products of float32 are computed in.
    """
    return Pipeline(
        (
            *GRAPH_PIPELINE,
            # When movement is where it stays, and weights are still as the model has them.
            MergeProjectionsPass(),
            DcePass(),
            *_in_precision(precision),
            # Where transposes have left the columns of groups side by side.
            JoinColumnsPass(),
            # Before weights are laid out for kernels that hold neighbouring columns in a vector.
            SumSingleColumnsPass(),
            # Such a convolution pads its input itself.
            ChooseWinogradPass(vector_bytes),
            # Kernels read their windows without asking whether they are inside of the image.
            MakePaddingExplicitPass(),
            # Weights in the order in which the micro-kernel reads them: now the graph is for one kind of machine.
            PackWeightsPass(vector_bytes),
            # What is left of movement stands in the way of fusion least where it comes last.
            SinkMovementPass(),
            CsePass(),
            DcePass(),
            # Last, when all that is computed from parameters alone is there.
            HoistParametersPass(),
        )
    )
