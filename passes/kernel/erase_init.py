"""The end of what ran when the model was compiled."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ..base import Pass, register


@register
@dataclass(frozen=True)
class EraseInitPass(Pass):
    """Erase @init: the compiler has run it by now, and what it made are parameters.

    ```mlir
    func.func @init(%w: tensor<8x4xf32>) -> tensor<4x8xf32> { ... }
    func.func @main(...) { ... }
    // -->
    func.func @main(...) { ... }
    ```

    Preconditions: whoever runs the program has the results of @init, under the names that its results carry.
    """

    name = "stepwell-erase-init"

    def run(self, op: ir.Operation) -> None:
        """Erases the function if it is there."""
        symbols = ir.SymbolTable(op)
        if "init" in symbols:
            symbols.erase(symbols["init"])
