"""Attention in which all threads of a block copy and multiply in alternation, with an online softmax.

    wait for keys t; barrier; start values t       scores = query @ keys t; softmax
    wait for values t; barrier; start keys t + 1   sums += weights @ values t

Keys and values have one tile each in shared memory: one is copied while the other is multiplied.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from mlir import ir
from mlir.dialects import gpu

from ...instructions import memory
from ...instructions.integers import Int
from ...instructions.loops import repeat
from ..contraction.shared import SharedTile
from ..rows.axes import element_bytes
from .rows import AttentionRows, RowValues
from .softmax import number
from .tiles import Shared, TileCopies


class AttentionBlock(AttentionRows):
    """A block whose threads copy and multiply in alternation.

    Attributes:
        tiles: layout of query, keys and values, in this order in shared memory.
    """

    tiles: tuple[SharedTile, SharedTile, SharedTile]

    @abstractmethod
    def products(self) -> RowValues:
        """Returns the products of query and keys, by row."""

    @abstractmethod
    def initial(self) -> list[ir.Value]:
        """Returns the initial sums, which are zero."""

    @abstractmethod
    def multiply(self, weights: RowValues, factors: Sequence[ir.Value], sums: Sequence[ir.Value]) -> list[ir.Value]:
        """Returns the sums, scaled by a factor per row, plus weights times values."""

    @abstractmethod
    def share(self, weights: RowValues) -> None:
        """Makes the weights available to other threads after the next barrier, if they need them."""

    @property
    def padded(self) -> bool:
        """True if sums extend past the last column of the result."""
        return self.sizes["v"] * element_bytes(self.attention.value.element) < self.tiles[2].row_bytes

    def bases(self) -> tuple[int, int, int]:
        """Returns the offsets of query, keys and values in shared memory; memory after them is the subclass's."""
        query, keys, _ = self.tiles
        return 0, query.bytes, query.bytes + keys.bytes

    def emit(self) -> int:
        """Writes the body at the insertion point; returns the number of blocks."""
        self.place(memory.block_number())
        pointer = memory.shared_memory()
        self.shared = Shared(pointer, memory.shared_address(pointer))
        query, keys, values = (
            self._copies(name, lines, inner, place)
            for place, (name, lines, inner) in enumerate(
                [("query", self.lines, "d"), ("key", "k", "d"), ("value", "k", "v")]
            )
        )
        query.start(self.first)
        query.finish()
        first, whole, end = self.tiles_seen()
        keys.start(first * self.keys)
        count = len(self.thread_rows())

        def turn(step: Int, state: Sequence[ir.Value], masked: bool) -> list[ir.Value]:
            key = step * self.keys
            keys.finish()
            gpu.barrier()
            values.start(key)
            weights, factors, ends = self.softmax(key, self.products(), state[: 2 * count], masked)
            self.share(weights)
            values.finish()
            gpu.barrier()
            keys.start(key + self.keys, (step + 1).below(end))
            return [*ends, *self.multiply(weights, factors, state[2 * count :])]

        state = [number(self.attention.start)] * count + [number(0.0)] * count + self.initial()
        if whole.known != first.known or whole.known is None:
            state = repeat(whole - first, state, lambda step, state: turn(first + step, state, False))
        if end.known != whole.known or whole.known is None:
            state = repeat(end - whole, state, lambda step, state: turn(whole + step, state, True))
        self.write(state[: 2 * count], state[2 * count :])
        return self.row_blocks

    def _copies(self, name: str, lines: str, inner: str, place: int) -> TileCopies:
        operand = getattr(self.attention, name)
        block = (self.item, self.thread, self.threads)
        where = (self.pointers[operand.base], self.shared, self.bases()[place])
        return TileCopies(operand, self.sizes, (self.items, lines, inner), self.tiles[place], block, where)
