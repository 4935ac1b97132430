"""How many rounds of a parallel loop are needed, where sizes vary: noted before it, for those who share it out."""

from __future__ import annotations

import itertools

from mlir import ir
from mlir.dialects import arith

from ...passes.parallel import trip_counts
from .limits import number_of

_ROUNDS = "stepwell.rounds"
"""On a loop its number; on what says how many rounds it needs along a dimension that number and the dimension."""


def note_rounds(loop: ir.Operation, dim: int, end: ir.Value) -> None:
    """Notes at the insertion point, before a loop, that along a dimension rounds are needed for indices below `end`."""
    lower, step = (ir.DenseI64ArrayAttr(loop.attributes[f"static{name}"])[dim] for name in ("LowerBound", "Step"))
    if lower:
        return
    if _ROUNDS not in loop.attributes:
        loop.attributes[_ROUNDS] = ir.DenseI64ArrayAttr.get([_number(loop)])
    (number,) = ir.DenseI64ArrayAttr(loop.attributes[_ROUNDS])
    inside = arith.MaxSIOp(end, number_of(0)).result
    rounds = arith.CeilDivSIOp(inside, number_of(step)).result
    found = arith.MinSIOp(rounds, number_of(trip_counts(loop)[dim]))
    found.operation.attributes[_ROUNDS] = ir.DenseI64ArrayAttr.get([number, dim])


def needed_rounds(loop: ir.Operation) -> list[int | ir.Value]:
    """How many rounds a loop has to make along each dimension: a number, or what was noted."""
    counts: list[int | ir.Value] = list(trip_counts(loop))
    if _ROUNDS not in loop.attributes:
        return counts
    (number,) = ir.DenseI64ArrayAttr(loop.attributes[_ROUNDS])
    for op in itertools.takewhile(lambda item: item.operation != loop, loop.block.operations):
        noted = list(ir.DenseI64ArrayAttr(op.attributes[_ROUNDS])) if _ROUNDS in op.attributes else []
        if len(noted) == 2 and noted[0] == number:
            counts[noted[1]] = op.operation.results[0]
    return counts


def _number(loop: ir.Operation) -> int:
    """A number that no loop before this one in its block has."""
    return sum(1 for _ in itertools.takewhile(lambda item: item.operation != loop, loop.block.operations))
