"""Blocks of a contraction: how much of it is in the scratchpads at a time, and in which order it is computed."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from .isa import SUM_BYTES, Box, MemoryView, tile_bytes, tiles
from .machine import TILE, CubeMachine
from .timeline import beats

LEFT, RIGHT = "left", "right"
_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Sizes of blocks in tiles: two per octave. A block of 32 tiles is 1 KiB of f16 in each line."""
_BUFFERS = (2, 3, 4)
"""Numbers of blocks to choose from for an operand that is loaded for every product. Two are enough for a load to take
place during a product; more hide the latency of memory too."""
SUM_BUFFERS = 2
"""Blocks of sums: one is stored while the next one is computed."""


@dataclass(frozen=True)
class CubeContraction:
    """A batch of matrix products in memory: result[b, m, n] = sum over k of left[b, m, k] * right[b, k, n].

    Attributes:
        sizes: size of each argument of the kernel in bytes.
        left: view of [batch * m, k].
        right: view of [batch * k, n].
        result: view of [batch * m, n].
        batch: number of products.
    """

    sizes: tuple[int, ...]
    left: MemoryView
    right: MemoryView
    result: MemoryView
    batch: int = 1

    @property
    def m(self) -> int:
        """The rows of one product."""
        return self.left.rows.size // self.batch

    @property
    def k(self) -> int:
        """The depth: the number of products in each sum."""
        return self.left.columns.size

    @property
    def n(self) -> int:
        """The columns."""
        return self.right.columns.size


@dataclass(frozen=True)
class Blocks:
    """A choice of blocks.

    Attributes:
        m: rows of a block, a multiple of `TILE`; `k` and `n` likewise.
        outer: the operand, `LEFT` or `RIGHT`, whose blocks change least often: the outer of the two loops over blocks.
        panels: how many whole rows (or columns) of blocks of the outer operand stay in the scratchpad, so that they
            are loaded only once; 0 if its blocks are loaded for every product.
        buffers: number of blocks of an operand that is loaded for every product.
    """

    m: int
    k: int
    n: int
    outer: str = LEFT
    panels: int = 0
    buffers: int = 2

    def slots(self, side: str, depth: int) -> int:
        """Returns for how many blocks of an operand there is room, if `depth` blocks make up the depth."""
        return self.panels * depth if side == self.outer and self.panels else self.buffers

    def block_bytes(self, side: str, element: str) -> int:
        """Returns the size of a block of an operand."""
        return tiles(self.m if side == LEFT else self.n) * tiles(self.k) * tile_bytes(element)

    @property
    def sum_bytes(self) -> int:
        """The size of a block of sums."""
        return tiles(self.m) * tiles(self.n) * SUM_BYTES


def is_worthwhile(m: int, k: int, n: int) -> bool:
    """Returns whether the unit should compute a product: padding to tiles must not make it over 8 times as large."""
    padded = tiles(m) * tiles(k) * tiles(n) * TILE**3
    return padded <= 8 * m * k * n and m >= TILE


def fits(blocks: Blocks, contraction: CubeContraction, machine: CubeMachine) -> bool:
    """Returns whether the blocks fit into the scratchpads."""
    depth = -(-contraction.k // blocks.k)
    operands = sum(
        blocks.slots(side, depth) * blocks.block_bytes(side, view.element)
        for side, view in ((LEFT, contraction.left), (RIGHT, contraction.right))
    )
    return operands <= machine.operand_bytes and SUM_BUFFERS * blocks.sum_bytes <= machine.sum_bytes


def candidates(contraction: CubeContraction, machine: CubeMachine) -> Iterator[Blocks]:
    """Yields all blocks that fit."""
    sizes = (_options(extent) for extent in (contraction.m, contraction.k, contraction.n))
    room = itertools.product((0, 1, 2), _BUFFERS)
    for (m, k, n), outer, (panels, buffers) in itertools.product(itertools.product(*sizes), (LEFT, RIGHT), room):
        blocks = Blocks(m, k, n, outer, panels, buffers)
        if fits(blocks, contraction, machine):
            yield blocks


def _options(extent: int) -> list[int]:
    """Returns the sizes of blocks for an extent: no block is larger than the extent needs."""
    most = tiles(extent)
    return sorted({min(size, most) * TILE for size in _SIZES})


def best(contraction: CubeContraction, machine: CubeMachine, count: int = 1) -> list[Blocks]:
    """Returns the blocks with the fewest estimated cycles, the best first."""
    moves = Moves(contraction, machine)
    return sorted(candidates(contraction, machine), key=lambda blocks: estimate(blocks, moves))[:count]


class Moves:
    """Cycles of moving blocks of a contraction, each computed once."""

    def __init__(self, contraction: CubeContraction, machine: CubeMachine) -> None:
        self.contraction, self.machine = contraction, machine
        self.left, self.right, self.result = (
            functools.cache(functools.partial(self._average, view))
            for view in (contraction.left, contraction.right, contraction.result)
        )

    def _average(self, view: MemoryView, rows: int, columns: int) -> float:
        """Returns the cycles of moving a block of a view, on average: blocks at the edges are smaller."""
        high, wide = view.rows.size // self.contraction.batch, view.columns.size
        rows, columns = min(rows, high), min(columns, wide)
        whole = beats(view, Box(0, 0, rows, 0, columns), self.machine.beat_bytes)
        return whole * (high / rows / -(-high // rows)) * (wide / columns / -(-wide // columns))


def estimate(blocks: Blocks, moves: Moves) -> float:
    """Returns about how many cycles a contraction takes: those of the engine that has most to do, and both ends."""
    contraction, machine = moves.contraction, moves.machine
    rows, depth, columns = (
        -(-extent // block)
        for extent, block in ((contraction.m, blocks.m), (contraction.k, blocks.k), (contraction.n, blocks.n))
    )
    left, right = moves.left(blocks.m, blocks.k), moves.right(blocks.k, blocks.n)
    stored = moves.result(blocks.m, blocks.n)
    products = contraction.batch * rows * depth * columns
    once = products / (columns if blocks.outer == LEFT else rows) if blocks.panels else products
    load = left * once + right * products if blocks.outer == LEFT else left * products + right * once
    compute = contraction.batch * tiles(contraction.m) * tiles(contraction.k) * tiles(contraction.n)
    stores = products / depth
    ends = left + right + machine.load_latency + compute / products + stored + machine.store_latency
    # A buffer is loaded, signalled, used and signalled again before it is loaded once more; sums likewise.
    turn = load / products + machine.load_latency + compute / products + machine.compute_latency
    turn_of_sums = compute / stores + machine.compute_latency + stored + machine.store_latency
    # A single panel is replaced only when its last product is done.
    switch = left + right + machine.load_latency + machine.compute_latency if blocks.panels == 1 else 0
    switches = contraction.batch * (rows if blocks.outer == LEFT else columns) - 1
    busiest = max(load, compute, stored * stores, products * turn / blocks.buffers, stores * turn_of_sums / SUM_BUFFERS)
    return busiest + switches * switch + ends
