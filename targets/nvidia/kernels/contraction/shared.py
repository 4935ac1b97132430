"""Layouts of tiles in shared memory without bank conflicts.

Shared memory has 32 banks of 4 bytes; 128 bytes, one word per bank, are transferred per cycle. A tile's rows are split
into chunks of 16 bytes. Eight lanes that read the same chunk of eight neighbouring rows (ldmatrix, 128-bit loads) would
access the same banks if a row has 128 bytes. The chunks of a row are therefore permuted by the row's number:

    chunk of row 0:  0 1 2 3 4 5 6 7        the position of chunk c in row r is c xor (r mod 8)
    chunk of row 1:  1 0 3 2 5 4 7 6        (rows of 64 bytes: c xor (r / 2 mod 4), of 32: c xor (r / 4 mod 2)),
    chunk of row 2:  2 3 0 1 6 7 4 5        which TMA calls the 128-, 64- and 32-byte swizzle
"""

from __future__ import annotations

from dataclasses import dataclass

from .....machines.gpus import ACCESS_BYTES, BANK_BYTES, BANKS
from ...instructions.integers import Int

CHUNK = ACCESS_BYTES
"""Size of a chunk in bytes: the widest access of a thread."""
_BANKS_BYTES = BANKS * BANK_BYTES


@dataclass(frozen=True)
class SharedTile:
    """A tile of `rows` rows of `row_bytes` bytes.

    Attributes:
        rows: number of rows.
        row_bytes: a multiple of 16; a power of two if the tile is swizzled.
        shift: number of low bits of the row number that do not affect the permutation.
        mask: mask of the shifted row number's bits that permute the chunks.
        scale: left shift of the masked bits before the xor.
    """

    rows: int
    row_bytes: int
    shift: int = 0
    mask: int = 0
    scale: int = 0

    @staticmethod
    def swizzled(rows: int, row_bytes: int) -> SharedTile:
        """Creates a layout for reads of one chunk of eight neighbouring rows."""
        chunks = min(_BANKS_BYTES, row_bytes) // CHUNK
        return SharedTile(rows, row_bytes, (_BANKS_BYTES // CHUNK // chunks).bit_length() - 1, chunks - 1)

    @staticmethod
    def crossed(rows: int, row_bytes: int) -> SharedTile:
        """Creates a layout for reads of 32 neighbouring bytes of each of four neighbouring rows."""
        return SharedTile(rows, row_bytes, 0, 3, 1)

    @staticmethod
    def plain(rows: int, row_bytes: int) -> SharedTile:
        """Creates a layout for reads along a row."""
        return SharedTile(rows, row_bytes)

    @property
    def bytes(self) -> int:
        """Size of the tile in bytes."""
        return self.rows * self.row_bytes

    @property
    def period(self) -> int:
        """Number of rows after which the permutation repeats."""
        return (self.mask + 1) << self.shift

    def offset(self, row: Int, chunk: Int) -> Int:
        """Returns the byte offset of a chunk of a row."""
        return row * self.row_bytes + (self.permuted(row, chunk) << 4)

    def permuted(self, row: Int, chunk: Int) -> Int:
        """Returns the position of a chunk in its row."""
        return chunk ^ (((row >> self.shift) & self.mask) << self.scale)

    def element(self, row: Int, column: Int, element_bytes: int) -> Int:
        """Returns the byte offset of an element of a row."""
        per_chunk = CHUNK // element_bytes
        return self.offset(row, column // per_chunk) + (column % per_chunk) * element_bytes
