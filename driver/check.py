"""`stepwell.check`: finds the nodes of a model that have no native code, without compiling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..runtime.host.fallback import Fallback
from ..runtime.report import html
from ..support.short_repr import short_repr
from ..support.wording import quantity
from .sources.onnx import OnnxSource
from .sources.reading import read_source
from .sources.source import SourceError


@short_repr
@dataclass(frozen=True)
class Report:
    """The findings for one model.

    Attributes:
        model: its name.
        nodes: number of nodes in its graph.
        findings: the nodes without native code, in the order of the graph.
        unseen: names of nodes that follow these and could not be checked, because their operands are not known well
            enough.
    """

    model: str
    nodes: int
    findings: tuple[Fallback, ...]
    unseen: tuple[str, ...] = ()

    @property
    def is_native(self) -> bool:
        """True if all of the model has native code."""
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
        columns = ("node", "operator", "reason", "work-around")
        return html.paragraph(self.summary) + (html.table(columns, rows) if rows else "")

    @property
    def summary(self) -> str:
        """The result in one line."""
        if self.is_native:
            return f"{self.model}: there is native code for all {quantity(self.nodes, 'node')}"
        rest = f"; {len(self.unseen)} more could not be checked (shapes may help)" if self.unseen else ""
        verb = "has" if len(self.findings) == 1 else "have"
        return f"{self.model}: {len(self.findings)} of {quantity(self.nodes, 'node')} {verb} no native code{rest}"


def check(model: Any, shapes: Mapping[str, Sequence[int]] | None = None) -> Report:
    """Finds all nodes of a model that have no native code, without compiling anything.

    Args:
        model: the path of an `.onnx` file, the bytes of one, or an `onnx.ModelProto`.
        shapes: shapes of some or all inputs; some nodes can only be checked at known shapes.

    Raises:
        SourceError: the argument is not an ONNX model, or cannot be read.
        ModelError: the model is damaged, or lacks an input that `shapes` names.
        NeedsShapes: it does not declare the rank of an input, and `shapes` does not give it.
    """
    source = read_source(model)
    if not isinstance(source, OnnxSource):
        raise SourceError(f"{source.name}: only ONNX models can be checked: {source.unchecked}")
    from ..frontend.onnx.fallback.diagnosis import diagnose
    from ..frontend.onnx.reading.model import read_model

    found = diagnose(read_model(source.path or source.data), shapes)
    return Report(source.name, found.nodes, found.findings, found.unseen)
