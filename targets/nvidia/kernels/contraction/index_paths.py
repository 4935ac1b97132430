"""Mapping of indices from a contraction's result through the following ops to the launch's result."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from .....lowering.builders.strides import reassociation
from ...instructions.integers import Int
from .matching import Contraction, maps_of

OpPath = Sequence[tuple[ir.Operation, int]]
"""Ops from a contraction to the launch's result, each with the index of the operand that is on the path."""


def through(op: ir.Operation, operand: int, place: Sequence[Int]) -> list[Int]:
    """Returns the indices in an op's result of the element at `place` in one of its operands."""
    if op.name == "linalg.generic":
        maps = maps_of(op)
        known = {_position(expression): part for expression, part in zip(maps[operand].results, place, strict=True)}
        return [known[_position(expression)] for expression in maps[-1].results]
    source, result = (list(ir.RankedTensorType(value.type).shape) for value in (op.operands[0], op.results[0]))
    if op.name == "tensor.collapse_shape":
        return [_joined([place[axis] for axis in run], [source[axis] for axis in run]) for run in reassociation(op)]
    parts: list[Int] = []
    for run, part in zip(reassociation(op), place, strict=True):
        parts += unravelled(part, [result[axis] for axis in run])
    return parts


def innermost(contraction: Contraction, path: OpPath) -> int:
    """Returns the largest number of neighbouring columns that the ops keep adjacent, at any multiple of that number."""
    at = contraction.results_at()
    if not at or at[-1] not in contraction.columns:
        return 1
    least = contraction.extents[at[-1]]
    for op, operand in path:
        if op.name == "linalg.generic":
            maps = maps_of(op)
            if _position(maps[operand].results[-1]) != _position(maps[-1].results[-1]):
                return 1
            continue
        source, result = (list(ir.RankedTensorType(value.type).shape) for value in (op.operands[0], op.results[0]))
        if not source or not result or (source[-1] == 1) != (result[-1] == 1):
            return 1
        least = min(least, source[-1], result[-1])
    return least


def unravelled(number: Int, sizes: Sequence[int]) -> list[Int]:
    """Returns the indices of the element at a row-major position."""
    parts = [Int(0)] * len(sizes)
    real = [axis for axis, size in enumerate(sizes) if size != 1]
    for axis in reversed(real):
        if axis == real[0]:
            parts[axis] = number
            break
        number, parts[axis] = divmod(number, sizes[axis])
    return parts


def _joined(parts: Sequence[Int], sizes: Sequence[int]) -> Int:
    total = Int(0)
    for part, size in zip(parts, sizes, strict=True):
        total = total * size + part if size != 1 else total
    return total


def _position(expression: ir.AffineExpr) -> int:
    return ir.AffineDimExpr(expression).position
