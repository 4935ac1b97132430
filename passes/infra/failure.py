"""Description of a compiler failure, and the base of the errors that carry it.

try:
    stepwell.compile("model.onnx")
except stepwell.CompileError as error:
    print(error.phase, error.pass_name, error.reproducer)
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...support.errors import StepwellError
from ...support.short_repr import short_repr

SCHEMA = 1
"""Version of the record, raised when a key is removed or changes its meaning."""
_SHOWN_OPS = 4
"""Number of ops that a message lists: a fused kernel may stem from hundreds of them."""


@short_repr
@dataclass(frozen=True)
class ModelOp:
    """A node of the model.

    Attributes:
        name: its name in the model.
        op_type: its operator; the operator of the stepwell op if the model is not an ONNX file; "" if unknown.
        operands: types of its operands in MLIR's syntax.
        results: types of its results.
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
        phase: the phase that was in progress: "import", "graph" and so on to "object".
        pass_name: the pass that failed; "" if no pass failed.
        ops: the nodes of the model from which the failing IR was made.
        kernel: the symbol of the kernel; "" if the failure is not in a kernel.
        location: the location of the IR in the text of the model; "" if there is none.
        crash: the signal that ended the process if native code crashed; "" otherwise.
        target: the name of the target.
        reproducer: the folder from which the failure can be reproduced; None if there is none.
        command: the command that reproduces it; "" if there is none.
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
        """All details except the reason, one line each, for display."""
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
        """The fields as a dictionary for JSON."""
        fields = asdict(self)
        fields["reproducer"] = None if self.reproducer is None else str(self.reproducer)
        return {"schema": SCHEMA, "pass": fields.pop("pass_name"), **fields}


class CompileError(StepwellError):
    """Base of the errors of a compile.

    Attributes:
        failure: all details of the failure; None until they have been collected.
        phase: the phase that was in progress; "" if unknown.
        pass_name: the pass that failed; "" if no pass failed.
        node: the name of the model's node at fault; the first one if a kernel stands for several.
        op_type: its operator.
        kernel: the symbol of the kernel at fault; "" if there is none.
        reproducer: the folder from which the failure can be reproduced; None if there is none.
    """

    failure: Failure | None = None
    phase: str = ""
    pass_name: str = ""
    node: str = ""
    op_type: str = ""
    kernel: str = ""
    reproducer: Path | None = None

    def explain(self, failure: Failure) -> None:
        """Fills in the attributes from the details of the failure."""
        self.failure, self.phase, self.pass_name = failure, failure.phase, failure.pass_name
        self.kernel, self.reproducer = failure.kernel, failure.reproducer
        if failure.ops:
            self.node, self.op_type = failure.ops[0].name, failure.ops[0].op_type


def one_line(text: str) -> str:
    """Text without line breaks."""
    return re.sub(r"\s*\n\s*", " / ", text.strip())
