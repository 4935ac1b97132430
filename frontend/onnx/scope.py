"""Names and what they stand for: one scope per graph, inner graphs see the outer ones' names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mlir import ir

from ..errors import NodeError
from .lists import ValueList


@dataclass(frozen=True)
class Unavailable:
    """Stands for an output that no handler makes: only its use is an error."""

    reason: str


@dataclass
class Guard:
    """A condition without which the module is not a translation of the model.

    Attributes:
        holds: a scalar bool tensor, true where all is well.
        reason: what the model does otherwise.
    """

    holds: ir.Value
    reason: str


@dataclass
class Scope:
    """The values of one graph by name, and what else holds for its nodes.

    Attributes:
        parent: the scope of the enclosing graph, whose names are visible; a function has none.
        versions: the version of each operator domain; the parent's, for an inner graph.
        prefix: what the names of nodes start with; likewise.
        active: the functions that are being inlined; likewise.
        guards: the conditions under which the ops made so far mean what the graph does.
        is_checked: whether nodes add guards on their data, as the import asks for: in all but the bodies of loops; the
            parent's, for an inner graph.
        spans: the slices that nothing but reductions reads, so that how many rows they have need not be known.
    """

    parent: Scope | None = None
    versions: dict[str, int] = field(default_factory=dict)
    prefix: str = ""
    active: frozenset[tuple[str, str, str]] = frozenset()
    values: dict[str, ir.Value | ValueList | Unavailable] = field(default_factory=dict)
    guards: list[Guard] = field(default_factory=list)
    is_checked: bool = True
    spans: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.parent is not None:
            self.versions, self.prefix, self.active = self.parent.versions, self.parent.prefix, self.parent.active
            self.is_checked = self.parent.is_checked

    def define(self, name: str, value: ir.Value | ValueList | Unavailable) -> None:
        """Gives a value its name.

        Raises:
            NodeError: the graph has another value of that name.
        """
        if name in self.values:
            raise NodeError(f"makes '{name}', but that name is taken: a name stands for one value only")
        self.values[name] = value

    def lookup(self, name: str) -> Any:
        """The value called `name` here or in an enclosing graph: a `ValueList` if it is a sequence.

        Raises:
            NodeError: there is none (yet).
        """
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return _available(scope.values[name])
            scope = scope.parent
        raise NodeError(
            f"reads '{name}', which no input, weight or earlier node provides; "
            "nodes must come after those that they depend on"
        )


def _available(value: ir.Value | ValueList | Unavailable) -> Any:
    if isinstance(value, Unavailable):
        raise NodeError(value.reason)
    return value
