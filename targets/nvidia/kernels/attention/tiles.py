"""Copies of tiles of query, key and value to shared memory; a tile has many lines of one head's depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from .....machines.gpus import SMALLEST_ASYNC_BYTES
from ...instructions.inline_ptx import await_copies, commit_copies
from ...instructions.integers import Int
from ..contraction.access import Dim, OperandAccess
from ..contraction.copies import AsyncCopies, OperandSlice, OperandTile, StagedCopies, read_global
from ..contraction.shared import SharedTile
from ..rows.axes import element_bytes
from .problem import AttentionOperand


@dataclass(frozen=True)
class Shared:
    """A block's shared memory: as a pointer, and as the address that instructions take."""

    pointer: ir.Value
    address: Int


class TileCopies:
    """Copies tiles of neighbouring lines of an operand to one place in shared memory.

    Elements past the last line and past the depth of a line become zero.
    """

    def __init__(
        self,
        operand: AttentionOperand,
        sizes: Mapping[str, int],
        letters: tuple[str, str, str],
        tile: SharedTile,
        block: tuple[Int, Int, int],
        place: tuple[ir.Value, Shared, int],
    ) -> None:
        """Computes the addresses of the thread's copies.

        Args:
            operand: the operand to copy.
            sizes: extent of each loop.
            letters: the loops over the batch, over lines, and along a line.
            tile: number and layout of a tile's lines; lines may be longer than the operand's.
            block: the batch element, the index of the thread, and the number of threads.
            place: the operand's pointer, shared memory, and the tile's byte offset in it.
        """
        batch, lines, inner = letters
        pointer, shared, base = place
        item, thread, threads = block
        access = access_of(operand, sizes, batch, lines, inner)
        width = element_bytes(operand.element)
        target = OperandTile(tile.row_bytes // width, tile.rows, width, False, tile)
        part = OperandSlice(Int(0), item, thread, threads)
        self._copies: AsyncCopies | StagedCopies
        if not access.by_depth and access.vector * width >= SMALLEST_ASYNC_BYTES:
            self._copies = AsyncCopies(access, target, part, pointer, operand.element)
            self._base = shared.address + base
        else:
            read = read_global(pointer, operand.element, operand.element, width)
            self._copies = StagedCopies(access, target, part, read, operand.element, shared.pointer)
            self._base = Int(base)

    def start(self, line: Int, wanted: ir.Value | None = None) -> None:
        """Starts copying the tile that begins at a line, if `wanted` holds."""
        self._copies.start(line, self._base, wanted)
        commit_copies()

    def finish(self) -> None:
        """Waits until this thread's copies are complete; a barrier extends this to all threads."""
        self._copies.finish()
        await_copies(0)


def access_of(operand: AttentionOperand, sizes: Mapping[str, int], batch: str, lines: str, inner: str) -> OperandAccess:
    """Returns the access to an operand; one linearised index each runs over `batch`, `lines` and `inner`."""
    dims = (_dims(operand, sizes, letters) for letters in (batch, inner, lines))
    return OperandAccess(element_bytes(operand.element), *dims, start=operand.offset).simplified()


def _dims(operand: AttentionOperand, sizes: Mapping[str, int], letters: Sequence[str]) -> tuple[Dim, ...]:
    return tuple(Dim(sizes[letter], operand.stride(letter)) for letter in letters)
