"""Rows of new tokens, stored at their slots in a pool, which usually is the memory of the result already.

scf.forall (%head) shared_outs(%block = %out) {
  scf.for %i = 0 to %copied { vector.transfer_write %pool[%head, %i], %block[%i] }
  scf.for %text, %token { vector.transfer_write %rows[%text, %head, %token, ..], %block[%slots[%text, %token], ..] }
}
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, tensor

from ...dialects.stepwell.paging import StoreRowsOp
from ...machines.families import WIDEST_VECTOR_BYTES
from ...passes.ir.values import shape_of
from ..builders.access import Point, read_row, write_row
from ..builders.indices import Index, add, multiply, value_of
from ..builders.tensors import with_shape
from .appending import TableReader, bits_of, copy_run, read_at
from .cumulative import pieces
from .rules import LINALG
from .sequences import in_parallel, repeat
from .view_rows import clipped


@LINALG.attach(StoreRowsOp)
def store_rows(op: StoreRowsOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits, per head, a copy of the pool unless the result is in its memory, and copies of the rows with data."""
    pool, rows, slots, table = inputs
    heads, count, depth = shape_of(pool)
    texts: Index
    tokens: Index
    texts, tokens = shape_of(slots)
    copied: Index = count * depth
    if table is not None:
        numbers = TableReader(table)
        texts, tokens = (numbers.clamped(end, most) for end, most in zip(op.ends, shape_of(slots), strict=True))
        if op.layout:
            is_copied = arith.cmpi(arith.CmpIPredicate.sgt, numbers.at(op.layout[0]), value_of(0))
            copied = arith.select(is_copied, value_of(copied), value_of(0))
    old, new = (with_shape(value, [math.prod(shape_of(value))]) for value in (pool, rows))
    width, most = count * depth, shape_of(slots)[1]
    runs = [
        (start + lanes * number, lanes)
        for start, lanes, times in pieces(depth, max(1, 8 * WIDEST_VECTOR_BYTES // bits_of(pool)))
        for number in range(times)
    ]

    def block_of(at: Sequence[ir.Value], block: ir.Value) -> ir.Value:
        head = at[0]
        row = with_shape(block, [width])
        start = multiply(head, width)
        row = copy_run(row, 0, copied, lambda position, point: read_at(old, add(start, position), point))

        def of_text(text: ir.Value, made: list[ir.Value]) -> list[ir.Value]:
            first = multiply(add(multiply(text, heads), head), most)

            def of_token(token: ir.Value, made: list[ir.Value]) -> list[ir.Value]:
                source = multiply(add(first, token), depth)
                slot = clipped(tensor.extract(slots, [text, token]), count)
                target = multiply(slot, depth)
                (row,) = made
                for offset, lanes in runs:
                    point = Point((), 0, lanes, lanes)
                    row = write_row(
                        read_row(new, [add(source, offset)], point), row, [value_of(add(target, offset))], point
                    )
                return [row]

            return repeat(0, tokens, made, of_token)

        (row,) = repeat(0, texts, [row], of_text)
        return with_shape(row, [1, width])

    flat = with_shape(outs[0], [heads, width])
    return [with_shape(in_parallel([1, width], flat, block_of), [heads, count, depth])]
