"""`stepwell.check`: what keeps a model from running in native code alone, found before anything is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..runtime import html
from ..runtime.fallback import Fallback
from ..runtime.short_repr import short_repr
from ..runtime.wording import quantity
from .source import ModelSource, SourceError


@short_repr
@dataclass(frozen=True)
class Report:
    """What was found in a model.

    Attributes:
        model: its name.
        nodes: how many nodes its graph has.
        findings: those that have no native code, in the order of the graph.
        unseen: the names of nodes behind these that could not be looked at, as too little is known of what they take.
    """

    model: str
    nodes: int
    findings: tuple[Fallback, ...]
    unseen: tuple[str, ...] = ()

    @property
    def is_native(self) -> bool:
        """Whether there is native code for all of the model."""
        return not self.findings and not self.unseen

    def record(self) -> dict[str, Any]:
        """The report for JSON."""
        return {
            "model": self.model,
            "native": self.is_native,
            "nodes": self.nodes,
            "findings": [finding.record() for finding in self.findings],
            "unseen": list(self.unseen),
        }

    def __str__(self) -> str:
        lines = [self.summary, *(f"  {finding}" for finding in self.findings)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [(item.node, item.operator, item.reason, item.suggestion) for item in self.findings]
        columns = ("node", "operator", "reason", "what helps")
        return html.paragraph(self.summary) + (html.table(columns, rows) if rows else "")

    @property
    def summary(self) -> str:
        """The result in one line."""
        if self.is_native:
            return f"{self.model}: there is native code for all {quantity(self.nodes, 'node')}"
        rest = f"; {len(self.unseen)} more could not be looked at (shapes may help)" if self.unseen else ""
        verb = "has" if len(self.findings) == 1 else "have"
        return f"{self.model}: {len(self.findings)} of {quantity(self.nodes, 'node')} {verb} no native code{rest}"


def check(model: Any, shapes: Mapping[str, Sequence[int]] | None = None) -> Report:
    """Looks for all nodes of a model that have no native code, without compiling anything.

    Args:
        model: the path of an `.onnx` file, the bytes of one, or an `onnx.ModelProto`.
        shapes: shapes for some or all of its inputs; what only shows at known shapes is found with them.

    Raises:
        SourceError: what was given is no ONNX model, or cannot be read.
        ModelError: the model is damaged, or has no such inputs.
        NeedsShapes: it does not declare the rank of an input, and `shapes` does not give it.
    """
    source = ModelSource.read(model)
    if source.kind != "onnx":
        raise SourceError(f"{source.name}: what is MLIR already has native code; only ONNX models can be checked")
    from ..frontend.onnx.diagnosis import diagnose
    from ..frontend.onnx.model import read_model

    found = diagnose(read_model(source.path or source.data), shapes)
    return Report(source.name, found.nodes, found.findings, found.unseen)
