"""The pipeline from phase `import` to the form in which programs are differentiated."""

from __future__ import annotations

from collections.abc import Sequence

from ...runtime.program import Shape
from ..graph.constants.fold_constants import FoldConstantsPass
from ..graph.pipelines import CLEAN_UP
from ..graph.shapes.infer_shapes import InferShapesPass
from ..graph.shapes.specialize_shapes import SpecializeShapesPass
from ..graph.simplification.fuse_composites import FuseCompositesPass
from ..infra.pipeline import Pipeline
from .lift_parameters import LiftParametersPass


def differentiable_pipeline(shapes: Sequence[Shape]) -> Pipeline:
    """The passes that bind the inputs of @main to shapes, make the graph canonical, and make parameters inputs."""
    return Pipeline(
        (
            SpecializeShapesPass.of(shapes),
            InferShapesPass(),
            FoldConstantsPass(),
            *CLEAN_UP,
            # Composites have derivatives that need less than those of their parts.
            FuseCompositesPass(),
            *CLEAN_UP,
            LiftParametersPass(),
        )
    )
