"""`stepwell-eliminate-empty-tensors`: temporaries that are destinations in the end."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.passmanager import PassManager

from ..base import Pass, register
from ..functions import functions_with_bodies
from ..rewriting import find_op


@register
@dataclass(frozen=True)
class EliminateEmptyTensorsPass(Pass):
    """Compute into what a `tensor.empty` is inserted into in the end: upstream's pass, where it has something to do.

    That one analyses a function as thoroughly as bufferisation does, whether or not there is an empty tensor in it.

        %0 = tensor.empty() : tensor<4xf32>
        %1 = linalg.fill ... outs(%0 : tensor<4xf32>)
        %2 = tensor.insert_slice %1 into %out[0] [4] [1]
        -->
        %0 = tensor.extract_slice %out[0] [4] [1]
        %1 = linalg.fill ... outs(%0 : tensor<4xf32>)
        %2 = tensor.insert_slice %1 into %out[0] [4] [1]
    """

    name = "stepwell-eliminate-empty-tensors"

    def run(self, op: ir.Operation) -> None:
        """Rewrites the functions of a module."""
        with_empty = [
            function
            for function in functions_with_bodies(op)
            if find_op(function, lambda inner: inner.name == "tensor.empty")
        ]
        if with_empty:
            manager = PassManager.parse("func.func(eliminate-empty-tensors)")
            for function in with_empty:
                manager.run(function)
