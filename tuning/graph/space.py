"""The search space of a graph: the sites where passes decide, with the legal values of each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...lowering.linalg_to_vector.spaces.space import (
    EFFECT,
    Axis,
    Parameters,
    RefusedError,
    SearchSpace,
    SpaceChoice,
    log2,
)
from ...machines.costs import kernel_ns
from ...machines.machine import Machine
from ...passes.infra.decisions import Site

PRECISION = "precision"
"""The kind of sites whose values change results by more than the order of sums."""


@dataclass(frozen=True)
class GraphSite:
    """All places of a graph that share a decision.

    Attributes:
        site: one of them.
        count: their number.
        nodes: the nodes of the model that are decided together.
        nanoseconds: their estimated time with the default value.
    """

    site: Site
    count: int
    nodes: tuple[str, ...]
    nanoseconds: float

    def costs(self, value: str) -> float | None:
        """Returns the estimated time of all places with a value; None if the cost function knows none."""
        cost = self.site.costs[value]
        return None if cost is None else cost * self.count


def sites_of(found: Iterable[Site], machine: Machine) -> list[GraphSite]:
    """Returns the sites by name, those with the most time first."""
    groups: dict[str, list[Site]] = {}
    for site in found:
        groups.setdefault(site.name, []).append(site)
    sites = []
    for places in groups.values():
        first, nodes = places[0], tuple(name for place in places for name in place.nodes)
        each = first.costs[first.default] or kernel_ns(machine, first.flops, first.bytes)
        sites.append(GraphSite(first, len(places), nodes, each * len(places)))
    return sorted(sites, key=lambda item: -item.nanoseconds)


@dataclass(frozen=True)
class GraphSpace(SearchSpace):
    """The decisions that a graph may have.

    Attributes:
        sites: the sites.
        nanoseconds: estimated time of a call with default decisions.
    """

    sites: Mapping[str, GraphSite] = field(default_factory=dict)
    nanoseconds: float = 0.0

    @staticmethod
    def of(found: Iterable[Site], machine: Machine, *, may_round: bool) -> GraphSpace:
        """Returns the space of the sites that passes found.

        Args:
            found: the sites.
            machine: the machine.
            may_round: whether products may have a shorter precision.
        """
        sites = {item.site.name: item for item in sites_of(found, machine)}
        wanted = {name: item for name, item in sites.items() if may_round or item.site.kind != PRECISION}
        axes = tuple(
            Axis.of(name, [value for value in item.site.costs if value != item.site.default])
            for name, item in wanted.items()
        )
        default = {name: item.site.default for name, item in wanted.items()}
        spent = sum(item.nanoseconds for item in wanted.values())
        return GraphSpace(machine, default, axes, wanted, spent)

    def parameters(self, choice: SpaceChoice) -> dict[str, Any]:
        """Returns the decisions that differ from the default ones; sites decide independently of each other."""
        found = {name: value for name, value in choice.items() if value is not None}
        for name, value in found.items():
            if name not in self.sites:
                raise RefusedError(f"the graph has no site '{name}'")
            if value not in self.sites[name].site.costs:
                legal = ", ".join(self.sites[name].site.costs)
                raise RefusedError(f"{name}: '{value}' is not possible, only {legal}")
        return self.changed(found)

    def features(self, parameters: Parameters) -> dict[str, float]:
        """Returns sums over the changed sites, weighted by their part of the estimated time of a call.

        The gain of a call is about the sum of the gains of its parts, so weights make models comparable.
        """
        found: dict[str, float] = {}
        for name, value in parameters.items():
            item = self.sites[name]
            site, weight = item.site, item.nanoseconds / self.nanoseconds
            cost, usual = item.costs(value), item.costs(site.default)
            change = f"{site.kind} {site.default} > {value}"
            terms = {
                "": 1.0,
                " cost": math.log(cost / usual) if cost and usual else 0.0,
                " bytes": log2(site.bytes) - _USUAL_BYTES,
                " intensity": log2(site.flops / site.bytes) - _USUAL_INTENSITY if site.bytes and site.flops else 0.0,
            }
            # The place itself, which may differ from others of its kind.
            found[f"{EFFECT}{name} = {value}"] = weight
            for term, number in terms.items():
                found[change + term] = found.get(change + term, 0.0) + weight * number
        return found

    def predicted(self, parameters: Parameters) -> float | None:
        """Returns the estimated time of a call in nanoseconds; unknown costs count as those of the default."""
        total = self.nanoseconds
        for name, value in parameters.items():
            item = self.sites[name]
            cost, usual = item.costs(value), item.costs(item.site.default)
            total += cost - usual if cost is not None and usual is not None else 0.0
        return total


# Centres of the logarithms of bytes (1 MiB) and of operations per byte (8), so that features are near zero.
_USUAL_BYTES, _USUAL_INTENSITY = 20.0, 3.0
