"""The result of an attention kernel on its way from registers to global memory."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import vector

from .. import memory
from ..contraction.access import Access
from ..integers import Int
from ..loops import when
from .problem import Attention
from .tiles import access_of


class Output:
    """Writes results of an attention kernel."""

    def __init__(self, attention: Attention, pointer: ir.Value, letters: tuple[str, str], item: Int) -> None:
        """Prepares for one element of the batch of a result.

        Args:
            attention: whose result it is.
            pointer: where it lies.
            letters: the loops over the batch, and over rows.
            item: which element of the batch.
        """
        self._access: Access = access_of(attention.result, attention.sizes, *letters, "v")
        self._element, self._columns = attention.result.element, attention.sizes["v"]
        # All results together may be more than 32 bits can count.
        self._pointer = memory.far_pointer(pointer, self._element, self._access.far(item))

    def write(self, row: Int, column: Int, results: Sequence[ir.Value], padded: bool) -> None:
        """Writes neighbours of a row that exists.

        Args:
            row: which row.
            column: of the first; a multiple of how many there are.
            results: the neighbours.
            padded: whether some of them may lie past the last column.
        """
        access = self._access
        line = access.place(access.depth, row)
        width = 1 if access.by_depth else min(access.vector, len(results))
        for first in range(0, len(results), width):
            part, start = results[first : first + width], column + first
            place = line + access.place(access.rows, start)
            kind = ir.VectorType.get([width], self._element)
            with when(start.below(self._columns) if padded else None):
                value = vector.from_elements(kind, part) if width > 1 else part[0]
                address = memory.element_pointer(self._pointer, self._element, place.offset)
                memory.store(value, address, access.element_bytes * width)
