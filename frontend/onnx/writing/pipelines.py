"""The pipeline from phase `import` to the form that is written as ONNX."""

from __future__ import annotations

from ....passes.graph.constants.fold_constants import FoldConstantsPass
from ....passes.graph.pipelines import CLEAN_UP
from ....passes.graph.shapes.infer_shapes import InferShapesPass
from ....passes.infra.pipeline import Pipeline


def writable_pipeline() -> Pipeline:
    """The passes that make shapes known and the graph canonical; ops stay those of the model."""
    return Pipeline((InferShapesPass(), FoldConstantsPass(), *CLEAN_UP))
