"""What is known of a failure of the compiler, and the base of the errors that carry it.

try:
    stepwell.compile("model.onnx")
except stepwell.CompileError as error:
    print(error.phase, error.pass_name, error.reproducer)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..runtime.errors import StepwellError
from ..runtime.short_repr import short_repr
from .note import say

SCHEMA = 1
_SHOWN_OPS = 4
_phase: ContextVar[str] = ContextVar("phase", default="")


@short_repr
@dataclass(frozen=True)
class ModelOp:
    """A node of the model.

    Attributes:
        name: its name in the model.
        op_type: its operator; that of the stepwell op where the model is no ONNX file; "" where not known.
        operands: the types of what it reads, as MLIR writes them.
        results: the types of what it makes.
    """

    name: str
    op_type: str = ""
    operands: tuple[str, ...] = ()
    results: tuple[str, ...] = ()

    def __str__(self) -> str:
        kind = f" ({self.op_type})" if self.op_type else ""
        types = f": {', '.join(self.operands)} -> {', '.join(self.results)}" if self.results else ""
        return f"node '{self.name}'{kind}{types}"


@short_repr
@dataclass(frozen=True)
class Failure:
    """A failure of the compiler.

    Attributes:
        reason: what went wrong.
        phase: the phase that was to be reached: "import", "graph" and so on to "object".
        pass_name: the pass that failed; "" where it was none.
        ops: the nodes of the model from which the IR came that it failed on.
        kernel: the symbol of the kernel; "" where it was in none.
        location: the place of the IR in the text of the model; "" where it has none.
        crash: the signal that ended the process, where native code crashed; "" otherwise.
        target: the name of the target.
        reproducer: the folder from which the failure can be shown again; None where there is none.
        command: what shows it; "" likewise.
    """

    reason: str
    phase: str = ""
    pass_name: str = ""
    ops: tuple[ModelOp, ...] = ()
    kernel: str = ""
    location: str = ""
    crash: str = ""
    target: str = ""
    reproducer: Path | None = None
    command: str = ""

    def lines(self) -> list[str]:
        """What is known beside the reason: a line for each thing, for people."""
        step = f"{self.phase}, pass {self.pass_name}" if self.phase and self.pass_name else self.phase or self.pass_name
        more = len(self.ops) - _SHOWN_OPS
        entries = [
            ("phase", step),
            *(("model op", str(op)) for op in self.ops[:_SHOWN_OPS]),
            ("model op", f"and {more} more" if more > 0 else ""),
            ("at", self.location),
            ("kernel", self.kernel),
            ("reproducer", "" if self.reproducer is None else str(self.reproducer)),
            ("show again", self.command),
        ]
        return [f"  {name:<11} {text}" for name, text in entries if text]

    def record(self) -> dict[str, Any]:
        """Its fields, for JSON."""
        fields = asdict(self)
        fields["reproducer"] = None if self.reproducer is None else str(self.reproducer)
        return {"schema": SCHEMA, "pass": fields.pop("pass_name"), **fields}


class CompileError(StepwellError):
    """Base of what goes wrong in a compile.

    Attributes:
        failure: all that is known of it; None until that has been found out.
        phase: the phase that was to be reached; "" where that is not known.
        pass_name: the pass that failed; "" where it was none.
        node: the name of the model's node that it is about, the first of them where a kernel stands for several.
        op_type: its operator.
        kernel: the symbol of the kernel that it is about; "" where it is about none.
        reproducer: the folder from which the failure can be shown again; None where there is none.
    """

    failure: Failure | None = None
    phase: str = ""
    pass_name: str = ""
    node: str = ""
    op_type: str = ""
    kernel: str = ""
    reproducer: Path | None = None

    def explain(self, failure: Failure) -> None:
        """Fills in what has been found out."""
        self.failure, self.phase, self.pass_name = failure, failure.phase, failure.pass_name
        self.kernel, self.reproducer = failure.kernel, failure.reproducer
        if failure.ops:
            self.node, self.op_type = failure.ops[0].name, failure.ops[0].op_type


@contextmanager
def in_phase(name: str) -> Iterator[None]:
    """Errors of the compiler that leave the block know their phase."""
    token = _phase.set(name)
    say(f"phase '{name}'")
    try:
        yield
    except CompileError as error:
        error.phase = error.phase or name
        raise
    finally:
        _phase.reset(token)
        say(f"phase '{_phase.get()}'" if _phase.get() else "")


def current_phase() -> str:
    """The phase that is about to be reached."""
    return _phase.get()


def say_pass(names: str) -> None:
    """Notes which passes are about to run."""
    say(f"phase '{_phase.get()}', pass '{names}'" if _phase.get() else f"pass '{names}'")


def one_line(text: str) -> str:
    """Text without line breaks."""
    return re.sub(r"\s*\n\s*", " / ", text.strip())
