"""A pass that checks the invariants of a phase, for pipelines and reproducers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir import ir

from ..passes.infra.base import Pass, PassError, register
from . import invariants


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
    """

    name = "stepwell-check-phase"
    phase: str = "import"

    def run(self, op: ir.Operation) -> None:
        """Checks a module.

        Raises:
            PassError: an invariant does not hold, or the phase does not exist.
        """
        if self.phase not in invariants.CHECKS:
            raise PassError(f"there is no phase '{self.phase}'; the phases are {', '.join(invariants.CHECKS)}")
        module: Any = op.opview
        invariants.CHECKS[self.phase](module)
