"""Simplification of control flow whose outcome is known."""

from __future__ import annotations

from mlir import ir


def inline_branch(op: ir.Operation, condition: bool) -> None:
    """Replaces an `scf.if` by the branch that is taken.

    scf.if true { a; yield %0 } else { b; yield %1 } --> a
    """
    region = op.regions[0 if condition else 1]
    taken = [inner.operation for inner in region.blocks[0].operations] if len(region.blocks) else []
    for inner in taken[:-1]:
        inner.move_before(op)
    if taken:
        for result, value in zip(op.results, list(taken[-1].operands), strict=True):
            result.replace_all_uses_with(value)
    op.erase()


def drop_casts(op: ir.Operation) -> None:
    """Removes the `tensor.cast`s between equal types inside `op`."""
    for region in op.regions:
        for block in region:
            for inner in [item.operation for item in block.operations]:
                drop_casts(inner)
                if inner.name == "tensor.cast" and inner.operands[0].type == inner.results[0].type:
                    inner.results[0].replace_all_uses_with(inner.operands[0])
                    inner.erase()
