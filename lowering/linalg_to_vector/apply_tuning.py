"""Gives kernels the schedules that a tuner found for them."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ...dialects import discardable
from ...dialects.symbols import symbol_of
from ...passes.infra.base import Pass, register
from ...passes.infra.state import CompileState
from ...passes.ir.functions import kernels_in
from ...passes.ir.locations import names_in
from .schedules.base import Schedule


@register
@dataclass(frozen=True)
class ApplyTuningPass(Pass):
    """Give every kernel that the compile's tuning names its tuned schedule.

    The parameters replace those that the default schedule of the kernel's class would choose. Kernels that have a
    schedule already keep it, as do those without an entry.

    ```mlir
    func.func private @kernel_7d80421c5b2e93f0a6d1(...) attributes {stepwell.kernel = {...}}
    // -->
    func.func private @kernel_7d80421c5b2e93f0a6d1(...) attributes {
      stepwell.kernel = {...}, stepwell.schedule = {name = "tuned", tiles = [array<i64: 6>]}}
    ```

    Preconditions: `stepwell-name-kernels` has run.
    """

    name = "stepwell-apply-tuning"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Writes the schedules of a module's kernels."""
        if state.tuning is None:
            return
        for kernel in kernels_in(op):
            schedule = state.tuning.schedule_of(symbol_of(kernel))
            if schedule is None or discardable.SCHEDULE.is_on(kernel):
                continue
            discardable.SCHEDULE.write(kernel, Schedule("tuned", dict(schedule), "").attribute())
            gain = state.tuning.kernels[symbol_of(kernel)].gain
            state.passed("Tune", names_in(kernel.location), "the schedule is a tuned one", gain=gain)
