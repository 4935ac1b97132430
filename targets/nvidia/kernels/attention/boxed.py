"""Operands of attention as the copy engine copies them: tiles of swizzled lines of 128 bytes."""

from __future__ import annotations

from mlir import ir

from ...instructions.warp_groups import LINE
from ..contraction.access import OperandAccess
from .problem import Attention
from .tiles import access_of

ITEMS = "bhgp"
"""The loops distributed over blocks: the rows of a block are queries of one head."""
GROUP_ROWS = 64
"""Rows per warp group."""
BYTES = 2
"""Bytes per element."""
PANEL = LINE // BYTES
"""Elements per line in shared memory."""


def whole(size: int, multiple: int) -> int:
    """Returns the smallest multiple of `multiple` that is at least `size`."""
    return -(-size // multiple) * multiple


def operands(attention: Attention, rows: int, keys: int) -> list[tuple[ir.Value, OperandAccess, int, int]]:
    """Returns base, access, and rows and depth of a tile, for query, keys and values as operands of products."""
    query, key, value = attention.query, attention.key, attention.value
    depth, width = (whole(attention.sizes[name], PANEL) for name in "dv")
    found = [(query, "d", "q", rows, depth), (key, "d", "k", keys, depth), (value, "k", "v", width, keys)]
    return [
        (operand.base, access_of(operand, attention.sizes, ITEMS, deep, along), size, deepest)
        for operand, deep, along, size, deepest in found
    ]
