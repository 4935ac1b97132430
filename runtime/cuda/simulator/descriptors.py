"""Matrix descriptors of `wgmma`: where in shared memory the elements of a factor are.

The layouts are the canonical ones of the PTX ISA ("Asynchronous warpgroup level canonical layouts"), where a piece is
16 bytes of elements that are neighbours along the major dimension:

- major in k: rows of 32, 64 or 128 bytes, as wide as the swizzle, follow each other in groups of eight; groups are
  `stride` apart. Without swizzle rows are one piece wide, and pieces along k are `leading` apart.
- major in m or n: lines of 2, 4 or 8 pieces, one for each k, in groups of eight; groups are `stride` apart, further
  pieces along the major dimension `leading`. Without swizzle lines are one piece, and the two change their meaning.

A swizzle permutes the pieces of what was found this way, by the bits of the shared address itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .kinds import Array
from .tensor_maps import swizzled

PIECE = 16
_SPANS = {0: 0, 1: 128, 2: 64, 3: 32}


@dataclass(frozen=True)
class MatrixDescriptor:
    """What a 64-bit descriptor says.

    Attributes:
        start: the shared address of the first element.
        leading: the leading dimension's byte offset.
        stride: the stride dimension's byte offset.
        span: bytes of the swizzle; 0 for none.
        base: the offset of the pattern that the swizzle repeats.
    """

    start: int
    leading: int
    stride: int
    span: int
    base: int

    @staticmethod
    def read(bits: int) -> MatrixDescriptor:
        """The descriptor in 64 bits."""
        start, leading, stride = (bits >> shift & 0x3FFF for shift in (0, 16, 32))
        return MatrixDescriptor(start << 4, leading << 4, stride << 4, _SPANS[bits >> 62 & 3], bits >> 49 & 7)

    def pieces(self, outer: int, inner: int, size: int, *, transposed: bool) -> Array:
        """The shared addresses of the pieces of a factor.

        Args:
            outer: its rows (m or n).
            inner: its columns (k).
            size: bytes of an element.
            transposed: whether neighbours in memory are neighbours in m or n, not in k.

        Returns:
            int64; outer x pieces of a row, or, if transposed, inner x pieces of a column.
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
