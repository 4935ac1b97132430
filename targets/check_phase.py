"""A pass that checks the invariants of a phase, for pipelines and reproducers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir import ir

from ..lowering import invariants
from ..passes.infra.base import Pass, PassError, register
from ..passes.infra.state import CompileState
from .registry import backend_of


@register
@dataclass(frozen=True)
class CheckPhasePass(Pass):
    """Check that a module satisfies the invariants of a phase; the IR is not changed.

    ```mlir
    func.func private @kernel_0(...) attributes {stepwell.kernel = ...} { "stepwell.relu"(%x) ... }
    // --> with phase=kernels: error: 'stepwell.relu' op was not lowered to linalg
    ```

    Attributes:
        phase: name of the phase, as in `--compile-to`.
        target: name of the target, which the later phases depend on.
    """

    name = "stepwell-check-phase"
    phase: str = "import"
    target: str = "cpu"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Checks a module.

        Raises:
            PassError: an invariant does not hold, or the phase does not exist.
        """
        late = {phase.name: phase.check for phase in backend_of(self.target).phases()}
        checks = {**invariants.EARLY_CHECKS, **late}
        if self.phase not in checks:
            raise PassError(f"there is no phase '{self.phase}' for {self.target}; the phases are {', '.join(checks)}")
        module: Any = op.opview
        checks[self.phase](module)
