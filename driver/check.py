"""`stepwell.check`: finds the nodes of a model that have no native code, without compiling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..runtime.host.fallback import Fallback
from ..runtime.report import html
from ..support.short_repr import short_repr
from ..support.wording import quantity
from .sources.reading import read_source


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


def check(
    model: Any,
    shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> Report:
    """Finds all nodes of a model that have no native code, without compiling anything.

    Args:
        model: an ONNX model, or a module or exported program of torch, in the forms that `stepwell.compile` takes.
        shapes: shapes of some or all inputs; some nodes can only be checked at known shapes.
        args: example arguments with which a module of torch is exported.
        kwargs: example keyword arguments of it.
        dynamic_shapes: the dimensions of these arguments that may vary, as `torch.export.export` takes them.

    Raises:
        SourceError: the argument is not a model, or of a format whose models have no nodes without native code.
        ModelError: the model is damaged, or lacks an input that `shapes` names.
        NeedsShapes: it does not declare the rank of an input, and `shapes` does not give it.
    """
    source = read_source(model, args, kwargs, dynamic_shapes)
    found = source.diagnose({name: tuple(shape) for name, shape in (shapes or {}).items()})
    return Report(source.name, found.nodes, found.findings, found.unseen)
