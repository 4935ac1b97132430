"""The pipeline that takes a freshly imported graph of symbolic sizes to one that serves ranges of sizes."""

from __future__ import annotations

from ..graph.constants.fold_constants import FoldConstantsPass
from ..graph.shapes.infer_shapes import InferShapesPass
from ..graph.simplification.canonicalize import CanonicalizePass
from ..graph.simplification.cse import CsePass
from ..graph.simplification.dce import DcePass
from ..graph.simplification.fuse_composites import FuseCompositesPass
from ..infra.pipeline import Pipeline
from .bind_ranges import BindRangesPass


def ranges_pipeline(memory: int = 0) -> Pipeline:
    """The passes before those of the phase `graph`, for a module with `stepwell.ranges`.

    Composites are recognised first: masks would hide them.

    Args:
        memory: the size of the target's memory in bytes; 0 if unknown.
    """
    return Pipeline(
        (
            InferShapesPass(),
            FoldConstantsPass(),
            CanonicalizePass(),
            CsePass(),
            DcePass(),
            FuseCompositesPass(),
            BindRangesPass(memory),
        )
    )
