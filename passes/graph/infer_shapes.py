"""The pass `stepwell-infer-shapes`: shape inference."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ...dialects import discardable
from ...dialects.registry import OPS
from ..infra.base import Pass, register
from ..infra.state import CompileState
from ..ir.functions import functions_with_bodies
from ..ir.rewriting import walk
from .inference import Inference, infer_function, input_specs, is_settled


@register
@dataclass(frozen=True)
class InferShapesPass(Pass):
    """Refine the result types of all ops from the input types.

    An op whose result stays dynamic gets `stepwell.result_dims`: one list per result, of integers and of expressions
    over the symbolic dimensions of the inputs.

    ```mlir
    func.func @main(%x: tensor<?x8xf32> {stepwell.dims = ["n", 8]}) -> tensor<?x?xf32> {
      %0 = "stepwell.relu"(%x) : (tensor<?x8xf32>) -> tensor<?x?xf32>
      // -->
      %0 = "stepwell.relu"(%x) {stepwell.result_dims = [["n", 8]]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
    ```
    """

    name = "stepwell-infer-shapes"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Infers every function with a body from its own arguments."""
        for function in functions_with_bodies(op):
            if is_settled(function):
                continue
            inference = infer_function(function, input_specs(function))
            for inner in walk(function):
                if inner.name in OPS:
                    _note_dims(inner, inference)


def _note_dims(op: ir.Operation, inference: Inference) -> None:
    if all(ir.RankedTensorType(result.type).has_static_shape for result in op.results):
        discardable.RESULT_DIMS.remove(op)
        return
    shapes = [inference.spec(result).shape for result in op.results]
    lists = [[dim if isinstance(dim, int) else str(dim) for dim in shape] for shape in shapes]
    discardable.RESULT_DIMS.write(op, lists)
