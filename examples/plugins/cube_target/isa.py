"""The instruction set of the cube unit.

Memory is that of the kernel's arguments, which instructions address by views: a view maps rows and columns of a matrix
to elements of one argument. The unit works on tiles of 16x16 elements, which lie in its two scratchpads:

- operands: tiles of f16 (512 bytes), i8 or u8 (256 bytes)
- sums: tiles of f32 or i32 (1024 bytes)

A block is a matrix of tiles, row by row. There are three instructions, one for each engine:

| instruction | engine | effect |
|---|---|---|
| load | load | moves a block of a view to the operands; its last tiles are filled up with zeros |
| multiply | compute | adds the product of two blocks of operands to a block of sums, or starts the sums with it |
| store | store | moves the part of a block of sums that a view has to memory, rounded to the element type of the view |

Engines run at the same time, so their order must be stated: an instruction may wait for one token of each other engine
before it starts, and may signal one to each other engine when it is done. Tokens of one engine for another are
counted in order: the n-th wait is for the n-th signal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from math import prod

import numpy as np

from .machine import TILE

ELEMENTS = {name: np.dtype(kind) for name, kind in (("f16", "f2"), ("f32", "f4"), ("i32", "i4"), ("i8", "i1"))}
ELEMENTS["u8"] = np.dtype("u1")
"""The element types of views. Operands are f16, i8 or u8; sums are f32 for f16, and i32 for bytes."""

SUM_BYTES = 4 * TILE * TILE
"""Size of a tile of sums."""


class Engine(IntEnum):
    """An engine, which executes its instructions in order."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2


def tiles(count: int) -> int:
    """Returns how many tiles hold a number of rows or columns."""
    return -(-count // TILE)


def tile_bytes(element: str) -> int:
    """Returns the size of a tile of operands."""
    return TILE * TILE * ELEMENTS[element].itemsize


@dataclass(frozen=True)
class Counter:
    """Nested loops that step through memory: extents and strides in elements, the outermost first.

    Convolutions need more than one loop for the rows (the positions) and the columns (the window and its channels).
    """

    loops: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """The number of steps."""
        return prod(extent for extent, _ in self.loops)

    @cached_property
    def offsets(self) -> np.ndarray:
        """The offset of each step in elements."""
        found = np.zeros(1, np.int64)
        for extent, stride in self.loops:
            found = (found[:, None] + np.arange(extent) * stride).ravel()
        return found


@dataclass(frozen=True)
class MemoryView:
    """A matrix in memory.

    Attributes:
        argument: the number of the kernel's argument.
        element: the element type, one of `ELEMENTS`.
        start: the element of the argument at row 0, column 0.
        rows: offsets of the rows.
        columns: offsets of the columns.
    """

    argument: int
    element: str
    start: int
    rows: Counter
    columns: Counter


@dataclass(frozen=True)
class Box:
    """A part of a view: a range of rows and a range of columns."""

    view: int
    row: int
    rows: int
    column: int
    columns: int

    @property
    def tiles(self) -> int:
        """The number of tiles that hold it."""
        return tiles(self.rows) * tiles(self.columns)


@dataclass(frozen=True)
class Load:
    """Moves a box of a view to a block of operands.

    Attributes:
        box: what to move.
        address: where its first tile goes, in bytes.
        wait: the engines to wait for.
        signal: the engines to signal.
    """

    engine = Engine.LOAD
    box: Box
    address: int
    wait: tuple[Engine, ...] = ()
    signal: tuple[Engine, ...] = ()


@dataclass(frozen=True)
class Multiply:
    """Adds left (m x k tiles) times right (k x n tiles) to sums (m x n tiles).

    Attributes:
        left: address of the left block of operands.
        right: address of the right block of operands.
        sums: address of the block of sums.
        shape: m, k and n in tiles.
        elements: element types of left and right.
        starts: whether the product replaces the sums.
        wait: the engines to wait for.
        signal: the engines to signal.
    """

    engine = Engine.COMPUTE
    left: int
    right: int
    sums: int
    shape: tuple[int, int, int]
    elements: tuple[str, str]
    starts: bool
    wait: tuple[Engine, ...] = ()
    signal: tuple[Engine, ...] = ()


@dataclass(frozen=True)
class Store:
    """Moves a block of sums to a box of a view.

    Attributes:
        box: where it goes.
        address: where the first tile of the block is, in bytes.
        wait: the engines to wait for.
        signal: the engines to signal.
    """

    engine = Engine.STORE
    box: Box
    address: int
    wait: tuple[Engine, ...] = ()
    signal: tuple[Engine, ...] = ()


Instruction = Load | Multiply | Store


@dataclass(frozen=True)
class CubeProgram:
    """The instruction stream of one kernel.

    Attributes:
        machine: the name of the machine that it is for.
        sizes: the size of each argument in bytes.
        views: the views that its instructions refer to, by number.
        instructions: the stream.
    """

    machine: str
    sizes: tuple[int, ...]
    views: tuple[MemoryView, ...]
    instructions: Sequence[Instruction]

    def __str__(self) -> str:
        return f"<CubeProgram of {len(self.instructions)} instructions>"
