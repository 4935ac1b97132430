"""Events of a compile, which callbacks receive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """An event of one compile.

    Attributes:
        phase: "start", "phase" (the IR has reached `step`), "kernels" (some are compiled), "hit" (the code was in the
            cache), "done" or "failed"; the last three end a compile.
        model: the model's name.
        what: the input shapes or ranges of sizes of the code.
        why: why the code is needed, such as "a call with new shapes".
        done: number of kernels compiled so far.
        total: number of kernels to compile; 0 if not known yet.
        seconds: time since the start.
        target: name of the code's target.
        step: the phase of the IR reached last, such as "graph" (docs/logging.md); "" before the first.
    """

    phase: str
    model: str
    what: str = ""
    why: str = ""
    done: int = 0
    total: int = 0
    seconds: float = 0.0
    target: str = ""
    step: str = ""

    @property
    def has_ended(self) -> bool:
        """True if this is the last event of its compile."""
        return self.phase in ("hit", "done", "failed")


Listener = Callable[[Progress], object]
