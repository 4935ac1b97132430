"""A pass that fails in the requested way."""

from dataclasses import dataclass

from mlir import ir
from stepwell.passes.infra.base import Pass, PassError, register
from stepwell.passes.infra.state import CompileState
from stepwell.passes.ir.rewriting import walk


@register
@dataclass(frozen=True)
class FailPass(Pass):
    """Fail at every `stepwell.exp`.

    Attributes:
        way: kind of failure: error, bug or invalid.
    """

    name = "test-fail"
    way: str = "error"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Fails."""
        for inner in walk(op):
            if inner.name == "stepwell.exp":
                self._fail(inner)

    def _fail(self, op: ir.Operation) -> None:
        if self.way == "error":
            raise PassError("there is no exp here", op.location)
        if self.way == "bug":
            raise KeyError("oops")
        op.results[0].set_type(ir.RankedTensorType.get([7], ir.F32Type.get()))
