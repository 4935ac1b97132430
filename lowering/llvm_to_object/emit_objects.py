"""Code generation as a pass, for pipelines and reproducers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir import ir

from ...passes.infra.base import Pass, PassError, register
from ...passes.infra.state import CompileState
from ..target import Target
from .codegen import CodegenError, emit_objects


@register
@dataclass(frozen=True)
class EmitObjectsPass(Pass):
    """Generate machine code for every function of a module in the LLVM dialect, and discard it; the IR is not changed.

    ```mlir
    llvm.func @f() { llvm.return }
    // --> the same, or an error if LLVM rejects it
    ```

    Attributes:
        target: the machine, in the form that `Target.parse` accepts.
    """

    name = "stepwell-emit-objects"
    target: str = "cpu"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Compiles all functions.

        Raises:
            PassError: LLVM rejected a function.
        """
        module: Any = op.opview
        try:
            emit_objects(module, Target.parse(self.target), threads=1)
        except CodegenError as error:
            raise PassError(str(error), op.location) from error
