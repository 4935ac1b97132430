"""Scopes of value names: one scope per graph; inner graphs see the names of outer ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mlir import ir

from ...errors import NodeError
from .lists import ValueList


@dataclass(frozen=True)
class Unavailable:
    """An output that no handler provides; only its use is an error."""

    reason: str


@dataclass
class Guard:
    """A condition under which the module is equivalent to the model.

    Attributes:
        holds: a scalar bool tensor, true if the condition is met.
        reason: description of the model's behaviour otherwise.
    """

    holds: ir.Value
    reason: str


@dataclass
class Scope:
    """The values of one graph by name, and other state for its nodes.

    Attributes:
        parent: the scope of the enclosing graph, whose names are visible; None for a function.
        versions: the version of each operator domain; inherited by inner graphs.
        prefix: prefix of node names; inherited.
        active: the functions that are being inlined; inherited.
        guards: the conditions under which the ops built so far are equivalent to the graph.
        is_checked: whether nodes add guards on their data if the import requests it; false in the bodies of loops;
            inherited.
        spans: the slices that only reductions read, whose number of rows need not be known.
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
            NodeError: the graph already has a value of that name.
        """
        if name in self.values:
            raise NodeError(f"makes '{name}', but that name is taken: each value needs a unique name")
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
