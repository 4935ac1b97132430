"""Derivatives of conditionals, and of casts between types of one shape."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from ..ir.values import shape_of
from .derivative import NotDifferentiableError
from .regions import block_in, captured, cloned, erase_unread, operations_in
from .reverse import CONTROL, Gradient, Pair, pulled_back


def _conditional(operation: ir.Operation, gradients: Sequence[Gradient], active: set[ir.Value]) -> list[Pair]:
    """%y = scf.if %c { a } else { b } --> %g = scf.if %c { a; a' } else { b; b' }

    Each branch computes its values again, and the gradients of all values that any of the two reads.
    """
    outside = [value for value in captured(operation) if value in active]
    if not all(ir.RankedTensorType(item.type).has_static_shape for item in gradients if item is not None):
        raise NotDifferentiableError("its branches return different shapes")
    made = ir.Operation.create(
        "scf.if", results=[value.type for value in outside], operands=[operation.operands[0]], regions=2
    )
    for region, branch in zip(made.regions, (block_in(operation, 0), block_in(operation, 1)), strict=True):
        block = ir.Block.create_at_start(region)
        with ir.InsertionPoint(block):
            mapping: dict[ir.Value, ir.Value] = {}
            copies = cloned(operations_in(branch), mapping)
            returned = [mapping.get(value, value) for value in list(branch.operations)[-1].operands]
            seeds = [(value, seed) for value, seed in zip(returned, gradients, strict=True) if seed is not None]
            ir.Operation.create("scf.yield", operands=pulled_back(copies, outside, seeds))
        erase_unread(block)
    return list(zip(outside, made.results, strict=True))


def _cast(operation: ir.Operation, gradients: Sequence[Gradient], active: set[ir.Value]) -> list[Pair]:
    """cast(x) --> g"""
    (value,), (gradient,) = operation.operands, gradients
    if gradient is None or shape_of(value) != shape_of(gradient):
        raise NotDifferentiableError("it changes the type to one whose shape varies")
    return [(value, gradient)]


CONTROL["scf.if"] = _conditional
CONTROL["tensor.cast"] = _cast
