"""Removes the function that runs at compile time."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ..infra.base import Pass, register
from ..infra.state import CompileState


@register
@dataclass(frozen=True)
class EraseInitPass(Pass):
    """Erase @init: the compiler has already run it, and its results are parameters.

    ```mlir
    func.func @init(%w: tensor<8x4xf32>) -> tensor<4x8xf32> { ... }
    func.func @main(...) { ... }
    // -->
    func.func @main(...) { ... }
    ```

    Preconditions: the caller of the program passes the results of @init, under the names on its results.
    """

    name = "stepwell-erase-init"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Erases the function if it exists."""
        symbols = ir.SymbolTable(op)
        if "init" in symbols:
            symbols.erase(symbols["init"])
