"""Evaluation of the scalar body of a linalg op."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith


def evaluate(op: ir.Operation, arguments: Sequence[ir.Value | None]) -> ir.Value:
    """Emits the body of an op for the given arguments and returns the yielded value (argument None: not read)."""
    block = op.regions[0].blocks[0]
    known = {argument: value for argument, value in zip(block.arguments, arguments, strict=True) if value is not None}
    *inner, yielded = block.operations

    def of(item: ir.Value) -> ir.Value:
        if item not in known:  # a constant defined outside the body
            known[item] = arith.constant(item.type, item.owner.attributes["value"])
        return known[item]

    for part in inner:
        operands = [of(operand) for operand in part.operands]
        attributes = {name: part.attributes[name] for name in part.attributes}
        made = ir.Operation.create(part.operation.name, [result.type for result in part.results], operands, attributes)
        known.update(zip(part.results, made.results, strict=True))
    return of(yielded.operands[0])
