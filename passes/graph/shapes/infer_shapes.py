"""The pass `stepwell-infer-shapes`: shape inference."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.functions import functions_with_bodies
from .inference import infer_function, input_specs, is_settled


@register
@dataclass(frozen=True)
class InferShapesPass(Pass):
    """Refine the result types of all ops from the input types.

    The encoding of a dynamic type lists its dimensions: integers, and expressions over the symbolic dimensions of the
    inputs.

    ```mlir
    func.func @main(%x: tensor<?x8xf32> {stepwell.dims = ["n", 8]}) -> tensor<?x?xf32> {
      %0 = "stepwell.relu"(%x) : (tensor<?x8xf32>) -> tensor<?x?xf32>
      // -->
      %0 = "stepwell.relu"(%x) : (tensor<?x8xf32, ["n", 8]>) -> tensor<?x8xf32, ["n", 8]>
    ```
    """

    name = "stepwell-infer-shapes"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Infers every function with a body from its own arguments."""
        for function in functions_with_bodies(op):
            if is_settled(function):
                continue
            infer_function(function, input_specs(function))
