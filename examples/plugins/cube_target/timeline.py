"""Cycles of an instruction stream: three engines that overlap as far as the tokens allow."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import prod

import numpy as np

from .isa import ELEMENTS, Box, CubeProgram, Engine, Instruction, MemoryView, Multiply
from .machine import CubeMachine


@dataclass(frozen=True)
class Timeline:
    """When a stream is done, and how long each engine was busy, in cycles.

    Attributes:
        cycles: cycles from the start of the first instruction until the last one is done.
        load: cycles in which the load engine moved data.
        compute: cycles in which the unit multiplied tiles.
        store: cycles in which the store engine moved data.
    """

    cycles: int
    load: int
    compute: int
    store: int

    @property
    def utilisation(self) -> float:
        """The share of cycles in which the unit multiplied tiles."""
        return self.compute / self.cycles if self.cycles else 0.0


def timeline(program: CubeProgram, machine: CubeMachine) -> Timeline:
    """Returns the cycles of a legal stream (`hazards.check`); they do not depend on the data."""
    latencies = {
        Engine.LOAD: machine.load_latency,
        Engine.COMPUTE: machine.compute_latency,
        Engine.STORE: machine.store_latency,
    }
    free, busy, total = dict.fromkeys(Engine, 0), dict.fromkeys(Engine, 0), 0
    tokens = {(first, second): deque[int]() for first in Engine for second in Engine}
    for item in program.instructions:
        engine = item.engine
        start = max([free[engine], *(tokens[other, engine].popleft() for other in item.wait)])
        duration = cycles_of(item, program.views, machine)
        free[engine] = start + duration
        busy[engine] += duration
        done = free[engine] + latencies[engine]
        total = max(total, done)
        for other in item.signal:
            tokens[engine, other].append(done)
    return Timeline(total, *(busy[engine] for engine in Engine))


def cycles_of(item: Instruction, views: tuple[MemoryView, ...], machine: CubeMachine) -> int:
    """Returns how long an instruction occupies its engine."""
    if isinstance(item, Multiply):
        return prod(item.shape)
    return beats(views[item.box.view], item.box, machine.beat_bytes)


def beats(view: MemoryView, box: Box, beat_bytes: int) -> int:
    """Returns the cycles in which a DMA engine moves a box: one for each line of memory that holds elements of it."""
    rows = view.rows.offsets[box.row : box.row + box.rows]
    columns = view.columns.offsets[box.column : box.column + box.columns]
    places = (rows[:, None] + (columns + view.start)) * ELEMENTS[view.element].itemsize // beat_bytes
    places -= places.min()
    touched = np.zeros(int(places.max()) + 1, np.bool_)
    touched[places] = True
    return int(np.count_nonzero(touched))
