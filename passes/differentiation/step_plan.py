"""Choices of the values of a training step that its backward pass computes again, by their bytes and times.

A step is a list of ops in order, the forward pass first. Programs of MLIR and graphs of torch are described alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ...machines.machine import Machine
from .minimum_cut import CutGraph

PRODUCTS = frozenset({"attention", "contraction", "convolution", "depthwise", "winograd"})
"""The classes of kernels that multiply matrices."""
_RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""Prices of a byte that is kept, in nanoseconds: from far less than the time to read it from memory to far more."""
_SEGMENTS = (2, 3, 4, 6, 8, 12, 16)
"""Numbers of parts of the forward pass whose ends are kept."""
_SHARES = (0.25, 0.5, 0.75)
"""Shares of the forward pass, from its beginning, of which values are computed again: they are kept for longest."""

_EFFICIENCY = 0.6
"""Share of the peak rate that products reach; measured products of training steps reach 0.5 to 0.8 of it."""


def nanoseconds(machine: Machine, kind: str | None, flops: float, moved: int, width: int) -> float:
    """The estimated time of an op: of its operations or of its bytes, whichever takes longer.

    Args:
        machine: the machine by whose rates times are estimated.
        kind: the class of its kernel; None takes no time.
        flops: number of its operations.
        moved: the bytes of its operands and results.
        width: the bytes of an element.
    """
    if kind is None:
        return 0.0
    lanes = machine.vector_bytes / width
    rate = 2 * machine.wide_clock * machine.fma_units * lanes * _EFFICIENCY
    if kind not in PRODUCTS:
        rate = machine.clock * lanes * machine.vector_units / 2
    return max(flops / rate, moved / machine.memory_rate)


@dataclass(frozen=True)
class StepOp:
    """An op of a training step.

    Attributes:
        reads: the places of the ops whose results it reads.
        bytes: the bytes of its results, except of those that are outputs.
        nanoseconds: the estimated time of the op.
        kind: the class of its kernel, such as "elementwise"; None for views and values without memory of their own.
        is_free: whether it is there without work, such as a parameter.
        can_repeat: whether it may be computed again.
    """

    reads: Sequence[int]
    bytes: int
    nanoseconds: float
    kind: str | None
    is_free: bool
    can_repeat: bool


@dataclass(frozen=True)
class RepeatedOps:
    """Ops of the forward pass that are computed again.

    Attributes:
        ops: their places in @main.
        nanoseconds: estimated time of computing them again.
        peak: estimated bytes of all values that are alive at the same time.
        rate: the price of a byte that is kept, in nanoseconds.
        held: the places of ops that were to be kept at any price.
    """

    ops: frozenset[int]
    nanoseconds: float
    peak: int
    rate: float = 0.0
    held: frozenset[int] = frozenset()


@dataclass(frozen=True)
class _Step:
    """An op in the order of a step: the op at a place, or the copy of it."""

    place: int
    is_copy: bool


class StepPlan:
    """A training step, as a forward and a backward pass.

    Attributes:
        kept: the places of the ops whose results the backward pass reads, except those without work.
    """

    def __init__(self, ops: Sequence[StepOp], forward: int, *, holds_kept: bool = False) -> None:
        """Takes the ops in order.

        Args:
            ops: the ops.
            forward: the number of ops, at the start, of the forward pass, with the loss.
            holds_kept: whether kept values are alive until the end, and not only until they were read.
        """
        self._forward, self._described, self._holds_kept = forward, ops, holds_kept
        self._reads = [op.reads for op in ops]
        self._bytes = [op.bytes for op in ops]
        self._is_free = [op.is_free for op in ops]
        self._kinds = [op.kind for op in ops]
        self._times = [op.nanoseconds for op in ops]
        read = {place for op in ops[forward:] for place in op.reads if place < forward}
        self.kept = sorted(place for place in read if not ops[place].is_free)

    def bytes_of(self, place: int) -> int:
        """Returns the bytes of the results of an op that are not outputs."""
        return self._bytes[place]

    def time_of(self, place: int) -> float:
        """Returns the estimated time of an op in nanoseconds."""
        return self._times[place]

    def reasons(self, choice: RepeatedOps) -> dict[int, str]:
        """Returns why each value that the backward pass needs is kept or computed again, by the place of its op.

        The values include those from which others are computed again.
        """
        read, again = set(self.kept), choice.ops
        operands = {item for place in again for item in self._reads[place] if not self._is_free[item]}
        return {place: self._reason(place, choice, place in read) for place in sorted({*read, *again, *operands})}

    def _reason(self, place: int, choice: RepeatedOps, is_read: bool) -> str:
        if place in choice.ops:
            return "the backward pass reads it" if is_read else "others are computed again from it"
        if not choice.ops:
            return "nothing is computed again"
        if not self._described[place].can_repeat:
            return "it cannot be computed again"
        if not self._bytes[place]:
            return "it takes no memory beside the outputs"
        if place in choice.held:
            return "it is at the end of a part, or late in the forward pass"
        if self._times[place] > choice.rate * self._bytes[place]:
            return "its time is above the price of its bytes"
        return "its operands would have to be kept or computed again too" if is_read else "others are computed from it"

    def choices(self) -> list[RepeatedOps]:
        """Returns choices, the cheapest first: each has a smaller estimated peak than those before it.

        The first one computes nothing again. Others are minimum cuts, at several prices of a byte that is kept: of the
        whole forward pass, of its beginning, and of parts of it whose ends are kept.
        """
        held = [frozenset[int](), *map(self._ends, _SEGMENTS), *map(self._late, _SHARES)]
        sets: dict[frozenset[int], tuple[float, frozenset[int]]] = {frozenset(): (0.0, frozenset())}
        for kept in held:
            for rate in _RATES:
                sets.setdefault(self._cut(rate, kept), (rate, kept))
        found = sorted(
            (self._choice(ops, rate, kept) for ops, (rate, kept) in sets.items()),
            key=lambda item: (item.nanoseconds, item.peak),
        )
        kept = [found[0]]
        for item in found[1:]:
            if item.peak < kept[-1].peak:
                kept.append(item)
        return kept

    def _ends(self, count: int) -> frozenset[int]:
        """The values alive between `count` parts of the forward pass, which are cut where these are smallest."""
        last = dict.fromkeys(range(self._forward), 0)
        for place in range(self._forward):
            for read in self._reads[place]:
                last[read] = place
        change = [0] * (self._forward + 2)
        for place in range(self._forward):
            if last[place] > place:
                change[place] += self._bytes[place]
                change[last[place]] -= self._bytes[place]
        alive = list(accumulate(change))
        weight, found = self._kept_so_far(), set[int]()
        total = weight[-1]
        for part in range(1, count):
            # Up to a quarter of a part away from the even division.
            low, high = ((part + shift) * total / count for shift in (-0.25, 0.25))
            places = [place for place in range(self._forward) if low <= weight[place] <= high]
            if places:
                cut = min(places, key=lambda place: (alive[place], place))
                found |= {place for place in range(cut + 1) if last[place] > cut and not self._is_free[place]}
        return frozenset(found)

    def _kept_so_far(self) -> list[int]:
        """The bytes of the values that are kept, up to each op of the forward pass."""
        kept = set(self.kept)
        return list(accumulate(self._bytes[place] if place in kept else 0 for place in range(self._forward)))

    def _late(self, share: float) -> frozenset[int]:
        """The ops after the beginning of the forward pass, which makes a share of the bytes that are kept."""
        weight = self._kept_so_far()
        return frozenset(place for place in range(self._forward) if weight[place] > share * weight[-1])

    def _cut(self, rate: float, held: Collection[int]) -> frozenset[int]:
        """The ops to compute again at a price of a byte, so that price and times together are least.

        Each op has two vertices. On the source's side, the first one is an op whose result the backward pass needs, and
        the second one an op that is computed again; its operands are needed then.
        """
        graph = CutGraph()
        needed = {place: graph.vertex() for place in range(self._forward) if not self._is_free[place]}
        again = {place: graph.vertex() for place in needed}
        for place in needed:
            price, time = rate * self._bytes[place], self._times[place]
            can_repeat = place not in held and self._described[place].can_repeat
            # Needed, and not computed again: the price. Computed again: the time.
            graph.edge(needed[place], again[place], price)
            graph.edge(again[place], needed[place], float("inf"))
            graph.edge(again[place], CutGraph.SINK, time + 1e-3 if can_repeat else 1e18)
            for read in self._reads[place]:
                if read in needed:
                    graph.edge(again[place], needed[read], float("inf"))
        for place in self.kept:
            graph.edge(CutGraph.SOURCE, needed[place], float("inf"))
        side = graph.source_side()
        return self._reached(place for place in again if again[place] in side)

    def _reached(self, ops: Iterable[int]) -> frozenset[int]:
        """Those of some ops that are computed again for the backward pass, directly or for others."""
        chosen, found = set(ops), set[int]()
        pending = [place for place in self.kept if place in chosen]
        while pending:
            place = pending.pop()
            if place not in found:
                found.add(place)
                pending += [read for read in self._reads[place] if read in chosen]
        return frozenset(found)

    def before(self, place: int, ops: Collection[int], made: set[int]) -> list[int]:
        """The ops to compute again before an op of the backward pass, in order; they are added to `made`."""
        pending = [read for read in self._reads[place] if read in ops]
        found = set[int]()
        while pending:
            item = pending.pop()
            if item not in made:
                made.add(item)
                found.add(item)
                pending += [read for read in self._reads[item] if read in ops]
        return sorted(found)

    def _choice(self, ops: frozenset[int], rate: float, held: frozenset[int]) -> RepeatedOps:
        order, made = [_Step(place, False) for place in range(self._forward)], set[int]()
        for place in range(self._forward, len(self._described)):
            order += [_Step(item, True) for item in self.before(place, ops, made)]
            order.append(_Step(place, False))
        fused = self._fused(order, ops)
        time = sum(self._times[place] * (0.3 if _Step(place, True) in fused else 1) for place in ops)
        return RepeatedOps(ops, time, self._peak(order, ops, fused), rate, held)

    def _sources(self, step: _Step, ops: Collection[int]) -> list[_Step]:
        return [_Step(read, self._is_late(step) and read in ops) for read in self._reads[step.place]]

    def _is_late(self, step: _Step) -> bool:
        """Returns whether a step is part of the backward pass."""
        return step.is_copy or step.place >= self._forward

    def _fused(self, order: Sequence[_Step], ops: Collection[int]) -> set[_Step]:
        """The steps whose results are only in registers, since the kernel of their only reader computes them."""
        readers: dict[_Step, list[_Step]] = {}
        for step in order:
            for source in self._sources(step, ops):
                readers.setdefault(source, []).append(step)
        found = set[_Step]()
        for step in order:
            kind, by = self._kinds[step.place], readers.get(step, [])
            reader = self._kinds[by[0].place] if len(by) == 1 else None
            is_absorbed = kind in (*PRODUCTS, "elementwise") and reader == "elementwise"
            is_absorbed |= kind == "elementwise" and reader == "reduction"
            # Between graphs of their own, values are in memory.
            is_between = self._holds_kept and not self._is_late(step) and any(map(self._is_late, by))
            # A view, and a value without memory of its own, have no kind.
            if kind is None or (is_absorbed and not is_between):
                found.add(step)
        return found

    def _peak(self, order: Sequence[_Step], ops: Collection[int], fused: Collection[_Step]) -> int:
        last: dict[_Step, int] = {}
        for position in range(len(order) - 1, -1, -1):
            step = order[position]
            end = max(last.get(step, position), position) if step in fused else position
            for source in self._sources(step, ops):
                last[source] = max(last.get(source, 0), end)
        if self._holds_kept:
            pending = [source for step in order if self._is_late(step) for source in self._sources(step, ops)]
            while pending:
                step = pending.pop()
                if not self._is_late(step) and last.get(step) != len(order) - 1:
                    last[step] = len(order) - 1
                    # A view keeps the memory of its operand.
                    pending += self._sources(step, ops) if self._kinds[step.place] is None else []
        change = [0] * (len(order) + 1)
        for position, step in enumerate(order):
            if step not in fused:
                change[position] += self._bytes[step.place]
                change[last.get(step, position) + 1] -= self._bytes[step.place]
        return max(accumulate(change), default=0)
