"""Number of needed iterations of a parallel loop if sizes vary: recorded before the loop, for its distribution."""

from __future__ import annotations

import itertools

from mlir import ir
from mlir.dialects import arith

from ...dialects import discardable
from ...passes.ir.parallel import trip_counts
from ...passes.ir.values import constant_index


def note_rounds(loop: ir.Operation, dim: int, end: ir.Value) -> None:
    """Records before a loop, at the insertion point, that iterations are needed for indices below `end` along `dim`."""
    lower, step = (ir.DenseI64ArrayAttr(loop.attributes[f"static{name}"])[dim] for name in ("LowerBound", "Step"))
    if lower:
        return
    if not discardable.ROUNDS.is_on(loop):
        discardable.ROUNDS.write(loop, [_number(loop)])
    (number,) = discardable.ROUNDS.required(loop)
    inside = arith.MaxSIOp(end, constant_index(0)).result
    rounds = arith.CeilDivSIOp(inside, constant_index(step)).result
    found = arith.MinSIOp(rounds, constant_index(trip_counts(loop)[dim]))
    discardable.ROUNDS.write(found.operation, [number, dim])


def needed_rounds(loop: ir.Operation) -> list[int | ir.Value]:
    """Returns the number of needed iterations of a loop along each dimension: static, or the recorded value."""
    counts: list[int | ir.Value] = list(trip_counts(loop))
    if not discardable.ROUNDS.is_on(loop):
        return counts
    (number,) = discardable.ROUNDS.required(loop)
    for op in itertools.takewhile(lambda item: item.operation != loop, loop.block.operations):
        noted = discardable.ROUNDS.read(op, ())
        if len(noted) == 2 and noted[0] == number:
            counts[noted[1]] = op.operation.results[0]
    return counts


def _number(loop: ir.Operation) -> int:
    """Returns a number that no earlier loop of the block has."""
    return sum(1 for _ in itertools.takewhile(lambda item: item.operation != loop, loop.block.operations))
