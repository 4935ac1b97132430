"""Checks of an instruction stream before it runs: addresses, sizes, and the order of engines.

An instruction may read what another engine wrote only if tokens order the two, and may overwrite only what nothing
reads any more. Each instruction therefore has a clock: for each engine, how many of its instructions are known to be
done when the instruction starts. A signal hands on the clock of its instruction to the one that waits for it.
"""

from __future__ import annotations

from collections import deque
from math import prod

import numpy as np

from .assembly import instruction_text
from .isa import ELEMENTS, SUM_BYTES, Box, CubeProgram, Engine, Instruction, Load, Multiply, Store, tile_bytes
from .machine import CubeMachine

_GRANULE = 256
"""The unit of addresses in bytes: the smallest tile."""


class StreamError(ValueError):
    """An instruction stream is illegal; the message names the instruction."""


def check(program: CubeProgram, machine: CubeMachine) -> None:
    """Checks every instruction of a stream.

    Raises:
        StreamError: an instruction accesses memory or a scratchpad out of bounds, works on a tile that is not there
            yet or still in use, or waits for a token that no instruction before it signals.
    """
    checker = _Checker(program, machine)
    for number, item in enumerate(program.instructions):
        try:
            checker.add(item)
        except StreamError as error:
            raise StreamError(f"instruction {number}, '{instruction_text(item)}': {error}") from None


class _Checker:
    def __init__(self, program: CubeProgram, machine: CubeMachine) -> None:
        self._program = program
        self._operands = _Scratchpad("operands", machine.operand_bytes)
        self._sums = _Scratchpad("sums", machine.sum_bytes)
        self._clocks = {engine: np.zeros(len(Engine), np.int64) for engine in Engine}
        self._tokens = {(first, second): deque[np.ndarray]() for first in Engine for second in Engine}

    def add(self, item: Instruction) -> None:
        """Checks the next instruction."""
        engine, clock = item.engine, self._clocks[item.engine]
        for other in item.wait:
            if not self._tokens[other, engine]:
                raise StreamError(f"it waits for a token that no earlier {other.name.lower()} instruction signals")
            np.maximum(clock, self._tokens[other, engine].popleft(), out=clock)
        if isinstance(item, Load):
            size = item.box.tiles * tile_bytes(self._in_bounds(item.box))
            self._operands.write(engine, clock, item.address, size)
        elif isinstance(item, Store):
            self._in_bounds(item.box)
            self._sums.read(engine, clock, item.address, item.box.tiles * SUM_BYTES)
        else:
            self._multiply(item, clock)
        clock[engine] += 1
        for other in item.signal:
            if other == engine:
                raise StreamError("an engine needs no token of itself")
            self._tokens[engine, other].append(clock.copy())

    def _multiply(self, item: Multiply, clock: np.ndarray) -> None:
        (m, k, n), (left, right) = item.shape, item.elements
        if prod(item.shape) == 0:
            raise StreamError("it multiplies no tiles")
        if "f16" in item.elements and left != right:
            raise StreamError("it multiplies floats by bytes")
        self._operands.read(item.engine, clock, item.left, m * k * tile_bytes(left))
        self._operands.read(item.engine, clock, item.right, k * n * tile_bytes(right))
        size = m * n * SUM_BYTES
        if not item.starts:
            self._sums.read(item.engine, clock, item.sums, size)
        self._sums.write(item.engine, clock, item.sums, size)

    def _in_bounds(self, box: Box) -> str:
        """Checks that a box is in its view, and the box's elements in the argument; returns the element type."""
        if box.view >= len(self._program.views):
            raise StreamError(f"there is no view %{box.view}")
        view = self._program.views[box.view]
        if not box.rows or not box.columns:
            raise StreamError("it moves nothing")
        if box.row + box.rows > view.rows.size or box.column + box.columns > view.columns.size:
            raise StreamError(f"view %{box.view} has only {view.rows.size} rows and {view.columns.size} columns")
        rows = view.rows.offsets[box.row : box.row + box.rows]
        columns = view.columns.offsets[box.column : box.column + box.columns]
        first, last = (int(pick(rows) + pick(columns)) + view.start for pick in (np.min, np.max))
        size = self._program.sizes[view.argument] // ELEMENTS[view.element].itemsize
        if first < 0 or last >= size:
            raise StreamError(f"argument {view.argument} has {size} elements, but it accesses {first} to {last}")
        return view.element


class _Scratchpad:
    """The last accesses of each granule of a scratchpad."""

    def __init__(self, name: str, size: int) -> None:
        self._name, self._size = name, size
        self._writer = np.full(size // _GRANULE, -1, np.int64)
        self._written = np.zeros(size // _GRANULE, np.int64)
        self._read = np.zeros((size // _GRANULE, len(Engine)), np.int64)

    def read(self, engine: Engine, clock: np.ndarray, address: int, size: int) -> None:
        """Records a read, after checking that it is of finished tiles."""
        part = self._part(address, size)
        if np.any(self._writer[part] < 0):
            raise StreamError(f"it reads {self._name} at {address:#x} that no instruction has written")
        self._after_writes(engine, clock, part, "reads")
        self._read[part, engine] = clock[engine] + 1

    def write(self, engine: Engine, clock: np.ndarray, address: int, size: int) -> None:
        """Records a write, after checking that the tiles are not in use."""
        part = self._part(address, size)
        self._after_writes(engine, clock, part, "overwrites")
        others = [other for other in Engine if other != engine]
        if np.any(self._read[part][:, others] > clock[others]):
            raise StreamError(f"it overwrites {self._name} at {address:#x} that may still be read: a token is missing")
        self._writer[part], self._written[part] = engine, clock[engine] + 1

    def _after_writes(self, engine: Engine, clock: np.ndarray, part: slice, verb: str) -> None:
        writer, written = self._writer[part], self._written[part]
        foreign = (writer >= 0) & (writer != engine)
        if np.any(written[foreign] > clock[writer[foreign]]):
            where = f"{self._name} at {part.start * _GRANULE:#x}"
            raise StreamError(f"it {verb} {where} that may not be written yet: a token is missing")

    def _part(self, address: int, size: int) -> slice:
        if address % _GRANULE:
            raise StreamError(f"address {address:#x} is no multiple of {_GRANULE}")
        if address + size > self._size:
            raise StreamError(f"it uses {self._name} up to {address + size:#x}, but there are {self._size:#x} bytes")
        return slice(address // _GRANULE, (address + size) // _GRANULE)
