"""Description of a node without native code: where it is, why it has none, and what helps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...support.errors import StepwellWarning
from ...support.short_repr import short_repr
from ...support.wording import quantity

_SHOWN = 3
"""Number of errors of the compiler that a warning quotes."""


@short_repr
@dataclass(frozen=True)
class Fallback:
    """A node without native code, which runs on the host, between compiled subgraphs of the model.

    Attributes:
        node: its name, or operator and position if it has none.
        op_type: its operator.
        domain: the operator's domain; "" is ONNX's own.
        opset: the version of the domain; None if the model does not import it.
        reason: why there is no native code for it.
        suggestion: what to do about it; "" if nothing is known to help.
        kind: the obstacle: "operator" (it is unknown), "type" (of an input or output), "attribute" (or another detail
            of the node), "size" (of an output, which depends on computed data), "error" (the compiler failed).
        dtypes: the element type of each input, "" if unknown; "seq(...)" and similar for inputs that are not tensors.
        shapes: the shape of each input, a number or a symbol per dimension; None if even the rank is unknown.
        phase: if the compiler failed, the phase that was to be reached; "" otherwise.
        pass_name: the pass that failed; "" if no pass failed.
        reproducer: the folder, on the machine that compiled, from which the failure can be reproduced; "" if none.
        line: file and line of the model's source that made the node, such as "model.py:12"; "" if unknown.
    """

    node: str
    op_type: str
    domain: str = ""
    opset: int | None = None
    reason: str = ""
    suggestion: str = ""
    kind: str = "operator"
    dtypes: tuple[str, ...] = ()
    shapes: tuple[tuple[int | str, ...] | None, ...] = ()
    phase: str = ""
    pass_name: str = ""
    reproducer: str = ""
    line: str = ""

    @property
    def operator(self) -> str:
        """The operator with its domain and version: "ai.onnx.ml.Scaler of opset 1"."""
        name = f"{self.domain}.{self.op_type}" if self.domain else self.op_type
        return f"{name} of opset {self.opset}" if self.opset is not None else name

    def record(self) -> dict[str, Any]:
        """Returns its fields, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        taken = [f"{kind or '?'}{_shape(shape)}" for kind, shape in zip(self.dtypes, self.shapes, strict=True)]
        takes = f" on {', '.join(taken)}" if taken else ""
        advice = f"; {self.suggestion}" if self.suggestion else ""
        place = f" at {self.line}" if self.line else ""
        return f"node '{self.node}' ({self.operator}{takes}){place}: {self.reason}{advice}{_shown(self)}"


class FallbackWarning(StepwellWarning):
    """Nodes of a model run on the host, which is slower than native code."""


def summary(found: Sequence[Fallback], total: int) -> str:
    """Returns a line about the nodes on the host, of `total` nodes."""
    counts = Counter(item.operator for item in found)
    operators = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in counts.most_common(5))
    more = f" and {len(counts) - 5} more operators" if len(counts) > 5 else ""
    verb = "runs" if len(found) == 1 else "run"
    share = f"{len(found)} of {quantity(total, 'node')} {verb} on the host"
    failed = dict.fromkeys(_shown(item) for item in found if item.kind == "error")
    return f"{share}, which is slow: {operators}{more}; see Executable.fallbacks{''.join(list(failed)[:_SHOWN])}"


def _shown(found: Fallback) -> str:
    """Returns the phase and pass in which the compiler failed, and the reproducer."""
    step = ", ".join([f"phase {found.phase}"] * bool(found.phase) + [f"pass {found.pass_name}"] * bool(found.pass_name))
    parts = [f"the compiler failed in {step}" if step else "", found.reproducer and f"reproducer {found.reproducer}"]
    return "".join(f"; {part}" for part in parts if part)


def read_fallback(record: dict[str, Any]) -> Fallback:
    """Reads the fields from `Fallback.record`, in which JSON has turned tuples into lists."""
    shapes = tuple(None if shape is None else tuple(shape) for shape in record["shapes"])
    return Fallback(**{**record, "dtypes": tuple(record["dtypes"]), "shapes": shapes})


def _shape(shape: tuple[int | str, ...] | None) -> str:
    return "[...]" if shape is None else f"[{', '.join(map(str, shape))}]"
