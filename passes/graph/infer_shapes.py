"""The pass `stepwell-infer-shapes`: shape inference."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ...dialects.dims import Dim
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

    An op whose result stays dynamic gets `stepwell.dims`: one list per result, of integers and of expressions over the
    symbolic dimensions of the inputs.

    ```mlir
    func.func @main(%x: tensor<?x8xf32> {stepwell.dims = ["n", 8]}) -> tensor<?x?xf32> {
      %0 = "stepwell.relu"(%x) : (tensor<?x8xf32>) -> tensor<?x?xf32>
      // -->
      %0 = "stepwell.relu"(%x) {stepwell.dims = [["n", 8]]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
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
        if "stepwell.dims" in op.attributes:
            del op.attributes["stepwell.dims"]
        return
    lists = [ir.ArrayAttr.get([_dim(dim) for dim in inference.spec(result).shape]) for result in op.results]
    op.attributes["stepwell.dims"] = ir.ArrayAttr.get(lists)


def _dim(dim: Dim) -> ir.Attribute:
    if isinstance(dim, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim)
    return ir.StringAttr.get(str(dim))
