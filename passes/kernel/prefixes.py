"""Prefixes: how much of a tensor is needed along each of its dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlir import ir

Prefix = int | str | list | None
"""How many elements along a dimension: an expression over sizes; None for all."""

Rule = Callable[[ir.Operation, int, Sequence[Prefix], Sequence[Any]], Sequence[Prefix]]
"""What an op needs of an operand (by its number), from what is needed of its result and the table."""


def all_of(value: ir.Value) -> list[Prefix]:
    """All of a tensor."""
    return [None] * ir.RankedTensorType(value.type).rank if isinstance(value.type, ir.RankedTensorType) else []


def sizes_of(value: ir.Value) -> list[int]:
    """The shape of a tensor, which is static."""
    return list(ir.RankedTensorType(value.type).shape)


def broadcast(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """Of an elementwise op's operand what is needed of the result, but all where it is broadcast."""
    shape, wide = sizes_of(op.operands[place]), sizes_of(op.results[0])
    shift = len(wide) - len(shape)
    return [needed[axis + shift] if size == wide[axis + shift] else None for axis, size in enumerate(shape)]


def scaled(prefix: Prefix, factor: int, offset: int) -> Prefix:
    """prefix * factor + offset."""
    if prefix is None:
        return None
    product = prefix if factor == 1 else ["*", prefix, factor]
    return product if offset == 0 else ["+", product, offset]
