"""The invariants of the phases as a pass, for pipelines and reproducers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir import ir

from ..passes.base import Pass, PassError, register
from . import invariants


@register
@dataclass(frozen=True)
class CheckPhasePass(Pass):
    """Check that a module has what must hold in a phase; the IR stays as it is.

    ```mlir
    func.func private @kernel_0(...) attributes {stepwell.kernel = ...} { "stepwell.relu"(%x) ... }
    // --> with phase=kernels: error: 'stepwell.relu' op was not lowered to linalg
    ```

    Attributes:
        phase: its name, as in `--compile-to`.
    """

    name = "stepwell-check-phase"
    phase: str = "import"

    def run(self, op: ir.Operation) -> None:
        """Checks a module.

        Raises:
            PassError: something does not hold, or there is no such phase.
        """
        if self.phase not in invariants.CHECKS:
            raise PassError(f"there is no phase '{self.phase}'; the phases are {', '.join(invariants.CHECKS)}")
        module: Any = op.opview
        invariants.CHECKS[self.phase](module)
