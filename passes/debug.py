"""`STEPWELL_DEBUG`: how much is told on the standard error stream, in every tool and in programs.

1: Python's traceback of an error that a tool reports, and of a crash.
2: also every pass as it runs, with its time; those in the processes that compile kernels too.
3: also, of a failure, the IR of the failing kernel (or module) as it was before the failing pass.
4: also the IR before every pass, and after every pass that changed it.
"""

from __future__ import annotations

import sys
import time

from mlir import ir

from ..runtime import environment
from .instrumentation import Instrumentation, PrintIR, Step, always

TRACEBACKS, PASSES, FAILING_IR, ALL_IR = 1, 2, 3, 4


def level() -> int:
    """What `STEPWELL_DEBUG` asks for; 0 where it is not set."""
    return environment.debug_level()


class Trace(Instrumentation):
    """Prints each pass after it has run, with its time."""

    def __init__(self) -> None:
        self._start = 0.0

    def before_pass(self, step: Step, op: ir.Operation) -> None:
        """Starts the clock."""
        self._start = time.perf_counter()

    def after_pass(self, step: Step, op: ir.Operation) -> None:
        """Prints the pass."""
        self._print(step, op, "")

    def after_pass_failed(self, step: Step, op: ir.Operation) -> None:
        """Prints the pass."""
        self._print(step, op, " FAILED")

    def _print(self, step: Step, op: ir.Operation, end: str) -> None:
        took = 1e3 * (time.perf_counter() - self._start)
        symbol = f" @{ir.StringAttr(op.attributes['sym_name']).value}" if "sym_name" in op.attributes else ""
        print(f"stepwell: {took:8.2f} ms  {step.name}{symbol}{end}", file=sys.stderr, flush=True)


def watchers() -> tuple[Instrumentation, ...]:
    """What the level asks to watch every pipeline with."""
    chosen = level()
    if chosen < PASSES:
        return ()
    trace = (Trace(),)
    return trace if chosen < ALL_IR else (*trace, PrintIR(before=always, only_on_change=True))
