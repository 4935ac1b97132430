"""The result of looking for everything in a model that has no native code."""

from __future__ import annotations

from dataclasses import dataclass

from ..runtime.host.fallback import Fallback


@dataclass(frozen=True)
class Diagnosis:
    """The findings about a model's graph.

    Attributes:
        nodes: number of nodes in the graph.
        findings: the nodes without native code, in graph order.
        unseen: names of nodes that could not be examined, as not even the types of their inputs are known.
    """

    nodes: int
    findings: tuple[Fallback, ...]
    unseen: tuple[str, ...] = ()
