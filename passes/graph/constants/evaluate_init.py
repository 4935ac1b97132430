"""The pass `stepwell-evaluate-init`: runs @init at compile time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ....dialects import interpreter
from ....runtime.memory import aligned
from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.functions import value_names
from ...ir.locations import names_in
from ...ir.rewriting import walk

_VALUES = ("stepwell.parameter", "stepwell.constant", "arith.constant")
"""Ops in @init that only define values and compute nothing."""


@register
@dataclass(frozen=True)
class EvaluateInitPass(Pass):
    """Evaluate @init in the interpreter: its results become parameters, and the function is erased.

    ```mlir
    func.func @init(%w: tensor<8x4xf32>) -> tensor<4x8xf32> { ... }
    func.func @main(...) { ... }
    // -->
    func.func @main(...) { ... }
    ```

    Without parameters, as in `stepwell-opt`, @init stays.
    """

    name = "stepwell-evaluate-init"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Evaluates the function if it exists."""
        symbols = ir.SymbolTable(op)
        if "init" not in symbols or state.parameters is None:
            return
        state.evaluated |= {
            name for inner in walk(symbols["init"]) if inner.name not in _VALUES for name in names_in(inner.location)
        }
        state.parameters = evaluate_init(op, state.parameters)


def evaluate_init(module: ir.Operation, parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the parameters of a module with the results of its @init, and erases @init.

    Raises:
        EvaluationError: @init cannot be evaluated.
    """
    symbols = ir.SymbolTable(module)
    if "init" not in symbols:
        return dict(parameters)
    init = symbols["init"]
    inputs, outputs = (value_names(init, key, "parameter") for key in ("arg_attrs", "res_attrs"))
    results = interpreter.evaluate(module, "init", [parameters[name] for name in inputs], parameters)
    init.operation.erase()
    # One by one, so that the weights of a large model are never in memory twice.
    for index, result in enumerate(results):
        results[index] = aligned(result)
    return {**parameters, **dict(zip(outputs, results, strict=True))}
