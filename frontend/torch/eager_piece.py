"""A piece of a graph as PyTorch runs it, for calls in which its compiled code fails."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .live import LiveProgram
from .piece import inverse, layout_of
from .strides import accept_any_strides


class EagerPiece:
    """The ops of a piece as a function of what its compiled code takes; errors are those of the ops."""

    def __init__(self, program: LiveProgram) -> None:
        """Copies the graph of a piece."""
        self._module: Any = program.copied_graph()
        accept_any_strides(self._module.graph)
        self._module.recompile()
        self._layout = layout_of(program.exported)
        self._inputs = [
            (item.kind, program.tensor(item.target) if item.kind == "weight" else item.constant)
            for item in program.signature.inputs
        ]

    def __call__(self, given: Sequence[Any]) -> tuple[Any, ...]:
        """Runs the ops; the results are new tensors, in the memory layout of those of compiled code."""
        carriers = [carried.tensor(given[carried.place]) for carried in self._layout.carried]
        values, orders = iter([*given, *carriers]), iter(self._layout.inputs)
        arguments = []
        for kind, known in self._inputs:
            value = next(values) if kind in ("input", "size") else known
            order = next(orders) if kind in ("input", "size") and isinstance(value, torch.Tensor) else None
            arguments.append(value if order is None else value.permute(order))
        orders = iter(self._layout.outputs)
        with torch.no_grad():
            return tuple(_laid_out(value, orders) for value in self._module(*arguments))


def _laid_out(value: Any, orders: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    order = next(orders)
    dense = value.clone(memory_format=torch.contiguous_format)
    return dense if order is None else dense.permute(inverse(order))
