"""Minimum cuts of graphs with capacities."""

from __future__ import annotations

import math
from collections import deque


class CutGraph:
    """A directed graph with capacities, whose vertices are numbers.

    The algorithm is that of Dinic: paths of the fewest edges are filled until none is left.
    """

    SOURCE, SINK = 0, 1

    def __init__(self) -> None:
        self._edges: list[list[int]] = [[], []]
        self._heads: list[int] = []
        self._left: list[float] = []

    def vertex(self) -> int:
        """Adds a vertex, and returns its number."""
        self._edges.append([])
        return len(self._edges) - 1

    def edge(self, tail: int, head: int, capacity: float) -> None:
        """Adds an edge; an infinite one is never cut."""
        for start, end, left in ((tail, head, capacity), (head, tail, 0.0)):
            self._edges[start].append(len(self._heads))
            self._heads.append(end)
            self._left.append(left)

    def source_side(self) -> set[int]:
        """Returns the vertices on the source's side of a minimum cut, of the one with the fewest."""
        while True:
            levels = self._levels()
            if levels[self.SINK] < 0:
                return {vertex for vertex, level in enumerate(levels) if level >= 0}
            positions = [0] * len(self._edges)
            while self._fill(levels, positions):
                pass

    def _levels(self) -> list[int]:
        levels = [-1] * len(self._edges)
        levels[self.SOURCE] = 0
        pending = deque([self.SOURCE])
        while pending:
            vertex = pending.popleft()
            for edge in self._edges[vertex]:
                head = self._heads[edge]
                if self._left[edge] > 0 and levels[head] < 0:
                    levels[head] = levels[vertex] + 1
                    pending.append(head)
        return levels

    def _fill(self, levels: list[int], positions: list[int]) -> bool:
        """Fills one path of increasing levels; returns False if there is none."""
        path: list[int] = []
        vertex = self.SOURCE
        while vertex != self.SINK:
            edge = self._next(vertex, levels, positions)
            if edge is not None:
                path.append(edge)
                vertex = self._heads[edge]
            elif path:
                vertex = self._heads[path.pop() ^ 1]
                positions[vertex] += 1
            else:
                return False
        amount = min(self._left[edge] for edge in path)
        if math.isinf(amount):
            raise ValueError("a path of infinite edges leads from the source to the sink")
        for edge in path:
            self._left[edge] -= amount
            self._left[edge ^ 1] += amount
        return True

    def _next(self, vertex: int, levels: list[int], positions: list[int]) -> int | None:
        while positions[vertex] < len(self._edges[vertex]):
            edge = self._edges[vertex][positions[vertex]]
            if self._left[edge] > 0 and levels[self._heads[edge]] == levels[vertex] + 1:
                return edge
            positions[vertex] += 1
        return None
