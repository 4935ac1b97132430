"""Decisions of passes on the graph that a tuner may make otherwise: the method of a convolution, a layout, a fusion.

    decisions = Decisions.of(module, state)
    method = decisions.make(
        "direct", lambda: Site("method", key_of(op), nodes, "direct", {"direct": 900.0, "winograd 4": 1100.0})
    )

The cost function decides, unless the module's attribute `stepwell.decisions` names another of the legal values. The
pass `stepwell-apply-decisions` writes that attribute, so dumps of all phases show what was decided otherwise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...dialects import discardable
from ...dialects.registry import view_of
from ...machines.machine import Machine
from .bindings import ir
from .state import CompileState

_DIGEST = 8
"""Characters of a digest that tells ops apart which agree in their types: a choice, for a few hundred of them."""


@dataclass(frozen=True)
class Site:
    """A place of a graph where a pass decides.

    Attributes:
        kind: what is decided: `method`, `layout`, `fusion`, `precision`.
        key: identifies the ops by what they compute, so that equal ones share a decision.
        nodes: the nodes of the model.
        default: the value that the cost function chose.
        costs: all legal values, each with its estimated time in nanoseconds; None if the cost function knows none.
        flops: floating-point operations of the ops.
        bytes: bytes of their operands and results.
    """

    kind: str
    key: str
    nodes: Sequence[str]
    default: str
    costs: Mapping[str, float | None]
    flops: float = 0.0
    bytes: float = 0.0

    @property
    def name(self) -> str:
        """The kind and the key."""
        return f"{self.kind} {self.key}"


class Decisions:
    """The values that a module's attribute names, by site."""

    def __init__(self, values: Mapping[str, str], state: CompileState) -> None:
        self._values, self._state = values, state

    @staticmethod
    def of(module: ir.Operation, state: CompileState) -> Decisions:
        """Reads the attribute of a module; other ops have none."""
        return Decisions(discardable.DECISIONS.read(module, {}), state)

    @property
    def is_idle(self) -> bool:
        """True if every site has its default value, and there is no tuner."""
        return not self._values and self._state.sites is None

    def make(self, default: str, describe: Callable[[], Site]) -> str:
        """Returns the value for a site, and tells a tuner of it.

        Args:
            default: the value that the cost function chose.
            describe: returns the site; it is not called if nothing is decided otherwise, as in most compiles.
        """
        if self.is_idle:
            return default
        site = describe()
        if self._state.sites is not None and len(site.costs) > 1:
            self._state.sites[site.name, tuple(site.nodes)] = site
        wanted = self._values.get(site.name)
        if wanted is None or wanted == site.default:
            return site.default
        if wanted not in site.costs:
            self._state.missed("Decide", site.nodes, f"{site.kind} '{wanted}' is none of {', '.join(site.costs)}")
            return site.default
        self._state.passed("Decide", site.nodes, f"{site.kind} is '{wanted}' by a decision", default=site.default)
        return wanted


def key_of(*ops: ir.Operation) -> str:
    """Returns a text that is the same for ops with the same names, attributes and types, without their operands."""
    first = ops[0].operation
    types = " ".join(_type_text(value.type) for value in first.operands)
    described = [_description(op.operation) for op in ops]
    digest = hashlib.sha256("\n".join(described).encode()).hexdigest()[:_DIGEST]
    return f"{first.name.removeprefix(discardable.PREFIX)} {types} {digest}"


def _description(op: ir.Operation) -> str:
    view = view_of(op)
    # Values of attributes with their defaults, which the text of an op may leave out.
    values = {} if view is None else view.attribute_values()
    attributes = [f"{name} = {np.asarray(value).tolist()}" for name, value in sorted(values.items())]
    types = [str(value.type) for value in (*op.operands, *op.results)]
    return "\n".join((op.name, *attributes, *types))


def _type_text(kind: ir.Type) -> str:
    return str(kind).removeprefix("tensor<").removesuffix(">")


def machine_key(machine: Machine) -> str:
    """Returns a digest of a machine's description: decisions for another machine are not used."""
    return hashlib.sha256(repr(machine).encode()).hexdigest()[:16]
