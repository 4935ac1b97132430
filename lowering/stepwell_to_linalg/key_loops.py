"""Loops over the keys or values of a head, which may be in pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, tensor

from ...passes.ir.values import shape_of
from ..builders.indices import Index, add, at_most, ceil_divide, loop, multiply, subtract, value_of
from .view_rows import PagedRows, clipped, prefetch
from .views import TensorView

_ROWS_AHEAD = 32
"""Number of rows between a row of a page and the one that is prefetched: hardware does not predict the next page."""


@dataclass(frozen=True)
class Keys:
    """The keys of one head.

    Attributes:
        paged: their pages; None if they are not in pages.
        end: the number of keys of the call.
        at: the indices of the text and of the head.
        first: the position of the first key.
    """

    paged: PagedRows | None
    end: Index
    at: tuple[Index, Index]
    first: Index

    @property
    def count(self) -> Index:
        """Number of keys."""
        return subtract(self.end, self.first)

    def each(self, memory: TensorView, carried: Sequence[ir.Value], loops: Sequence[KeyLoop]) -> list[ir.Value]:
        """Emits `for page: for each of the loops: for key: carried = body(key, row, carried)`.

        Each loop thus reads the keys of a page while they are in the first-level cache. Keys that are not in pages are
        read from the first to the last one by each loop.

        Args:
            memory: the keys or values.
            carried: the values of all loops.
            loops: the loops over the keys of a page.
        """
        paged = self.paged
        if paged is None:
            return _in_turn(loops, carried, lambda each, values: each.emit(0, 0, self.end, values))
        count = value_of(self.count)
        pages = at_most(ceil_divide(count, paged.size), shape_of(paged.pages)[1])
        distance = -(-_ROWS_AHEAD // paged.size)

        def first_row(page: Index) -> Index:
            found = tensor.extract(paged.pages, [value_of(self.at[0]), value_of(page)])
            return multiply(clipped(found, memory.shape[2] // paged.size), paged.size)

        def of_page(page: Index, carried: list[ir.Value]) -> list[ir.Value]:
            before, row = multiply(page, paged.size), first_row(page)
            ahead = first_row(arith.minsi(value_of(add(page, distance)), value_of(subtract(pages, 1))))
            inside = at_most(subtract(count, before), paged.size)

            def of_loop(each: KeyLoop, values: list[ir.Value]) -> list[ir.Value]:
                def later(key: Index) -> None:
                    prefetch(memory, (*self.at, add(ahead, key), 0))

                return each.emit(before, row, inside, values, later if each is loops[0] else None)

            return _in_turn(loops, carried, of_loop)

        return loop(0, pages, 1, carried, of_page)


@dataclass(frozen=True)
class KeyLoop:
    """A loop over keys for some rows of queries.

    Attributes:
        body: returns the values that the loop carries on, from the number of a key, its row in memory, and the values.
        carried: the place of these values among those of all loops.
        step: number of keys that the body reads. They are in one page; the last ones may be beyond those of the call.
    """

    body: Callable[[Index, Index, list[ir.Value]], list[ir.Value]]
    carried: slice
    step: int = 1

    def emit(
        self,
        before: Index,
        row: Index,
        count: Index,
        values: Sequence[ir.Value],
        prefetched: Callable[[Index], None] | None = None,
    ) -> list[ir.Value]:
        """Emits the loop over `count` keys behind the first `before` ones.

        Args:
            before: the number of the first key.
            row: its row in the memory.
            count: the number of keys.
            values: the values that the loop carries.
            prefetched: prefetches what a later loop reads in the place of a key.
        """

        def of_keys(key: Index, values: list[ir.Value]) -> list[ir.Value]:
            if prefetched is not None:
                for more in range(self.step):
                    prefetched(add(key, more))
            return self.body(add(before, key), add(row, key), values)

        return loop(0, count, self.step, values, of_keys)


def _in_turn(
    loops: Sequence[KeyLoop],
    carried: Sequence[ir.Value],
    emit: Callable[[KeyLoop, list[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """Emits loops one after the other; returns the values that they carry on."""
    values = list(carried)
    for each in loops:
        values[each.carried] = emit(each, values[each.carried])
    return values
