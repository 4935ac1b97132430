"""Copies of the ops inside control flow, and what they read from outside."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from ...dialects.registry import view_of
from ..ir.rewriting import walk


def block_in(operation: ir.Operation, region: int) -> ir.Block:
    """Returns the block of a region of an operation, which has one block in each."""
    return operation.regions[region].blocks[0]


def operations_in(block: ir.Block) -> list[ir.Operation]:
    """Returns the ops of a block without its terminator."""
    return [view.operation for view in list(block.operations)[:-1]]


def captured(operation: ir.Operation) -> list[ir.Value]:
    """Returns the values from outside that the ops inside an operation read."""
    inside = list(walk(operation))
    own = {value for item in inside for value in item.results}
    for item in (operation, *inside):
        own.update(argument for region in item.regions for block in region for argument in block.arguments)
    return list(dict.fromkeys(value for item in inside for value in item.operands if value not in own))


def users_inside(operation: ir.Operation, value: ir.Value) -> list[tuple[ir.Operation, int]]:
    """Returns the ops inside an operation that read a value, each with the place of the operand."""
    return [
        (item, place) for item in walk(operation) for place, operand in enumerate(item.operands) if operand == value
    ]


def cloned(operations: Sequence[ir.Operation], mapping: dict[ir.Value, ir.Value]) -> list[ir.Operation]:
    """Copies ops to the insertion point.

    Args:
        operations: the ops, in order.
        mapping: what the copies read in place of values; the results of the copies are added.
    """
    made = []
    for operation in operations:
        copy = operation.clone().operation
        for item in (copy, *walk(copy)):
            for place, operand in enumerate(item.operands):
                if operand in mapping:
                    item.operands[place] = mapping[operand]
        mapping.update(zip(operation.results, copy.results, strict=True))
        made.append(copy)
    return made


def erase_unread(block: ir.Block) -> None:
    """Erases the stepwell and `scf` ops of a block, all of them without side effects, whose results nothing reads."""
    for operation in reversed(operations_in(block)):
        is_pure = view_of(operation) is not None or operation.name.startswith("scf.")
        if is_pure and not any(True for result in operation.results for _ in result.uses):
            operation.erase()
