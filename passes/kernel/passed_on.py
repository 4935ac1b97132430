"""Data flow through loops and branches: the values that become block arguments and results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlir import ir

PASSING = ("scf.for", "scf.while", "scf.if")
"""Ops that pass tensors into their regions, from one iteration to the next, and to their results."""


def passed_on(op: ir.Operation) -> list[tuple[ir.Value, Sequence[ir.Value]]]:
    """Each tensor that a loop or branch passes on, with the block arguments and results that receive it."""
    return [(value, receivers) for value, receivers in _pairs(op) if isinstance(receivers[0].type, ir.RankedTensorType)]


def _pairs(op: ir.Operation) -> Iterator[tuple[ir.Value, Sequence[ir.Value]]]:
    results = list(op.results)
    ends = [list(_terminator(region).operands) if len(region.blocks) else [] for region in op.regions]
    if op.name == "scf.if":
        for end in ends:
            yield from ((value, [result]) for value, result in zip(end, results, strict=False))
        return
    first = list(op.regions[0].blocks[0].arguments)
    if op.name == "scf.for":
        for values in (list(op.operands)[3:], ends[0]):
            yield from ((value, [*both]) for value, *both in zip(values, first[1:], results, strict=True))
        return
    for values in (list(op.operands), ends[1]):
        yield from ((value, [argument]) for value, argument in zip(values, first, strict=True))
    second = list(op.regions[1].blocks[0].arguments)
    yield from ((value, [*both]) for value, *both in zip(ends[0][1:], second, results, strict=True))


def _terminator(region: ir.Region) -> ir.Operation:
    operations = region.blocks[0].operations
    return operations[len(operations) - 1].operation
