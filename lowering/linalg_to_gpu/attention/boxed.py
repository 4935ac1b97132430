"""The operands of an attention as the copy engine brings them: tiles of lines of 128 bytes, swizzled."""

from __future__ import annotations

from mlir import ir

from ..contraction.access import Access
from ..warp_groups import LINE
from .problem import Attention
from .tiles import access_of

ITEMS = "bhgp"
"""The loops over what different blocks do: a block's rows are queries of one head."""
GROUP_ROWS = 64
"""Rows of a warp group."""
BYTES = 2
"""Of an element."""
PANEL = LINE // BYTES
"""Elements of a line in shared memory."""


def whole(size: int, multiple: int) -> int:
    """The smallest multiple that holds a size."""
    return -(-size // multiple) * multiple


def operands(attention: Attention, rows: int, keys: int) -> list[tuple[ir.Value, Access, int, int]]:
    """Query, keys and values as operands of products: where they lie, how, and the rows and depth of a tile."""
    query, key, value = attention.query, attention.key, attention.value
    depth, width = (whole(attention.sizes[name], PANEL) for name in "dv")
    found = [(query, "d", "q", rows, depth), (key, "d", "k", keys, depth), (value, "k", "v", width, keys)]
    return [
        (operand.base, access_of(operand, attention.sizes, ITEMS, deep, along), size, deepest)
        for operand, deep, along, size, deepest in found
    ]
