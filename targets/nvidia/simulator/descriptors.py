"""Matrix descriptors of `wgmma`, which give the layout of an operand in shared memory.

The layouts are the canonical ones of the PTX ISA ("Asynchronous warpgroup level canonical layouts"). A chunk is 16
bytes of elements that are neighbours along the major dimension:

- k-major: rows of 32, 64 or 128 bytes, the width of the swizzle, are stored in groups of eight, `stride` apart. Without
  swizzle, a row is one chunk wide, and chunks along k are `leading` apart.
- m- or n-major: lines of 2, 4 or 8 chunks, one line per k, are stored in groups of eight, `stride` apart; further
  chunks along the major dimension are `leading` apart. Without swizzle, a line is one chunk, and the roles of the two
  offsets are exchanged.

The swizzle permutes the chunks of the resulting layout according to bits of the shared address.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .kinds import Array
from .tensor_maps import swizzled

PIECE = 16
"""Size of a chunk in bytes."""
_SPANS = {0: 0, 1: 128, 2: 64, 3: 32}


@dataclass(frozen=True)
class MatrixDescriptor:
    """Contents of a 64-bit descriptor.

    Attributes:
        start: shared address of the first element.
        leading: byte offset of the leading dimension.
        stride: byte offset of the stride dimension.
        span: bytes of the swizzle; 0 for none.
        base: base offset of the swizzle pattern.
    """

    start: int
    leading: int
    stride: int
    span: int
    base: int

    @staticmethod
    def read(bits: int) -> MatrixDescriptor:
        """Decodes a descriptor of 64 bits."""
        start, leading, stride = (bits >> shift & 0x3FFF for shift in (0, 16, 32))
        return MatrixDescriptor(start << 4, leading << 4, stride << 4, _SPANS[bits >> 62 & 3], bits >> 49 & 7)

    def pieces(self, outer: int, inner: int, size: int, *, transposed: bool) -> Array:
        """Returns the shared addresses of the 16-byte chunks of a factor.

        Args:
            outer: number of rows (m or n).
            inner: number of columns (k).
            size: bytes per element.
            transposed: whether neighbours in memory are neighbours in m or n instead of k.

        Returns:
            int64; outer x chunks per row, or, if transposed, inner x chunks per column.
        """
        per_piece = PIECE // size
        if not transposed:
            row, piece = np.arange(outer)[:, None], np.arange(-(-inner // per_piece))[None]
            if self.span:
                linear = row % 8 * self.span + row // 8 * self.stride + piece * PIECE
            else:
                linear = row % 8 * PIECE + row // 8 * self.stride + piece * self.leading
        else:
            row, piece = np.arange(inner)[:, None], np.arange(-(-outer // per_piece))[None]
            if self.span:
                line = self.span // PIECE
                linear = piece % line * PIECE + piece // line * self.leading
                linear = linear + row % 8 * self.span + row // 8 * self.stride
            else:
                linear = piece * self.stride + row % 8 * PIECE + row // 8 * self.leading
        return swizzled(self.start + linear.astype(np.int64), self.span)
