"""Prefixes: the live extent of a tensor along each of its dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlir import ir

from ...dialects.interfaces import Interface
from ...sizes.algebra import Dimension, ceil_div, size
from ...sizes.expressions import evaluate, expression_of, names_in
from ...sizes.extrema import greatest
from ..ir.values import shape_of

Prefix = int | str | list | None
"""The number of live elements along a dimension: an expression over symbolic sizes; None for all."""

LiveRule = Callable[[ir.Operation, int, Sequence[Prefix], Sequence[Any]], Sequence[Prefix]]
"""Computes an operand's live prefixes from the op, the operand's index, the result's prefixes and the table."""

DEMAND = Interface[LiveRule]("demand", "live prefix of each operand, from that of the result", rooms=("passes.kernel",))
"""An op without an implementation needs all of its operands."""


def all_of(value: ir.Value) -> list[Prefix]:
    """The prefixes of a tensor that is live in full."""
    return [None] * ir.RankedTensorType(value.type).rank if isinstance(value.type, ir.RankedTensorType) else []


def broadcast(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """The result's prefixes for an operand of an elementwise op; in full along broadcast dimensions."""
    shape, wide = shape_of(op.operands[index]), shape_of(op.results[0])
    shift = len(wide) - len(shape)
    return [needed[axis + shift] if size == wide[axis + shift] else None for axis, size in enumerate(shape)]


def scaled(prefix: Prefix, factor: int, offset: int) -> Prefix:
    """prefix * factor + offset."""
    return None if prefix is None else expression_of(_dim(prefix) * factor + offset)


def divided(prefix: Prefix, by: int) -> Prefix:
    """prefix / by, rounded up."""
    return None if prefix is None else expression_of(ceil_div(_dim(prefix), by))


def larger(left: Prefix, right: Prefix) -> Prefix:
    """The maximum of two prefixes."""
    if left is None or right is None:
        return None
    return left if left == right else expression_of(greatest((_dim(left), _dim(right))))


def _dim(expression: int | str | list) -> Dimension:
    return evaluate(expression, {name: size(name) for name in names_in(expression)})
