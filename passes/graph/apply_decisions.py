"""The pass `stepwell-apply-decisions`: gives a module the decisions on its graph that a tuner found."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ...dialects import discardable
from ..infra.base import Pass, register
from ..infra.decisions import machine_key
from ..infra.state import CompileState


@register
@dataclass(frozen=True)
class ApplyDecisionsPass(Pass):
    """Write the compile's tuned decisions as an attribute of the module, which later passes read.

    A decision that the attribute has already stays as it is. Decisions for sites that the graph does not have change
    nothing.

    ```mlir
    module {
    // -->
    module attributes {stepwell.decisions = {"method conv 1x8x8x16xf32 16x16x3x3xf32 1f0c52ab" = "direct"}} {
    ```

    Preconditions: the compile has tuned decisions for its machine, and sizes do not vary; otherwise the module stays as
    it is.
    """

    name = "stepwell-apply-decisions"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Writes the attribute."""
        if discardable.RANGES.is_on(op):
            return
        found = {} if state.tuning is None else state.tuning.decisions_for(machine_key(state.machine))
        if found:
            discardable.DECISIONS.write(op, {**found, **discardable.DECISIONS.read(op, {})})
