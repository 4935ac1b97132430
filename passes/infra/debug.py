"""`STEPWELL_DEBUG`: how much every tool and program prints to the standard error stream.

1: Python's traceback of each error that a tool reports, and of crashes.
2: also every pass as it runs, with its time, including passes in the processes that compile kernels.
3: also, after a failure, the IR of the failing kernel (or module) before the failing pass.
4: also the IR before every pass, and after every pass that changed it.
"""

from __future__ import annotations

import sys
import time

from mlir import ir

from ...support import environment
from .instrumentation import Instrumentation, PassStep, PrintIR, always

TRACEBACKS, PASSES, FAILING_IR, ALL_IR = 1, 2, 3, 4
"""The levels of `STEPWELL_DEBUG`; each prints also what those below it print."""


def level() -> int:
    """The value of `STEPWELL_DEBUG`; 0 if it is not set."""
    return environment.debug_level()


class Trace(Instrumentation):
    """Prints each pass after it has run, with its time in milliseconds."""

    def __init__(self) -> None:
        self._start = 0.0

    def before_pass(self, step: PassStep, op: ir.Operation) -> None:
        """Starts the clock."""
        self._start = time.perf_counter()

    def after_pass(self, step: PassStep, op: ir.Operation) -> None:
        """Prints the pass."""
        self._print(step, op, "")

    def after_pass_failed(self, step: PassStep, op: ir.Operation) -> None:
        """Prints the pass as failed."""
        self._print(step, op, " FAILED")

    def _print(self, step: PassStep, op: ir.Operation, end: str) -> None:
        took = 1e3 * (time.perf_counter() - self._start)
        symbol = f" @{ir.StringAttr(op.attributes['sym_name']).value}" if "sym_name" in op.attributes else ""
        print(f"stepwell: {took:8.2f} ms  {step.name}{symbol}{end}", file=sys.stderr, flush=True)


def watchers() -> tuple[Instrumentation, ...]:
    """The instrumentation that the debug level requests for every pipeline."""
    chosen = level()
    if chosen < PASSES:
        return ()
    trace = (Trace(),)
    return trace if chosen < ALL_IR else (*trace, PrintIR(before=always, only_on_change=True))
