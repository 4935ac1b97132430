"""Stores of an attention kernel's results from registers to global memory."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import vector

from ...instructions import memory
from ...instructions.integers import Int
from ...instructions.loops import when
from ..contraction.access import OperandAccess
from .problem import Attention
from .tiles import access_of


class AttentionOutput:
    """Writes the results of an attention kernel."""

    def __init__(self, attention: Attention, pointer: ir.Value, letters: tuple[str, str], item: Int) -> None:
        """Prepares for one batch element of a result.

        Args:
            attention: the attention of the kernel.
            pointer: address of the result.
            letters: the loops over the batch, and over rows.
            item: index of the batch element.
        """
        self._access: OperandAccess = access_of(attention.result, attention.sizes, *letters, "v")
        self._element, self._columns = attention.result.element, attention.sizes["v"]
        # The results of all batch elements may exceed 32-bit offsets.
        self._pointer = memory.far_pointer(pointer, self._element, self._access.far(item))

    def write(self, row: Int, column: Int, results: Sequence[ir.Value], padded: bool) -> None:
        """Writes neighbouring elements of an existing row.

        Args:
            row: index of the row.
            column: index of the first element's column; a multiple of the number of elements.
            results: the elements.
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
