"""Prefixes: the live extent of a tensor along each of its dimensions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir

from ...dialects.interfaces import Interface
from ..ir.values import shape_of

Prefix = int | str | list | None
"""The number of live elements along a dimension: an expression over symbolic sizes; None for all."""

Rule = Callable[[ir.Operation, int, Sequence[Prefix], Sequence[Any]], Sequence[Prefix]]
"""Computes an operand's live prefixes from the op, the operand's index, the result's prefixes and the table."""

DEMAND = Interface[Rule]("demand", "live prefix of each operand, from that of the result", rooms=("passes.kernel",))
"""An op without an implementation needs all of its operands."""


def all_of(value: ir.Value) -> list[Prefix]:
    """The prefixes of a tensor that is live in full."""
    return [None] * ir.RankedTensorType(value.type).rank if isinstance(value.type, ir.RankedTensorType) else []


def broadcast(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """The result's prefixes for an operand of an elementwise op; in full along broadcast dimensions."""
    shape, wide = shape_of(op.operands[place]), shape_of(op.results[0])
    shift = len(wide) - len(shape)
    return [needed[axis + shift] if size == wide[axis + shift] else None for axis, size in enumerate(shape)]


def scaled(prefix: Prefix, factor: int, offset: int) -> Prefix:
    """prefix * factor + offset."""
    if prefix is None:
        return None
    return _greatest([_Term(item.of, item.factor * factor, item.offset * factor + offset) for item in _terms(prefix)])


def divided(prefix: Prefix, by: int) -> Prefix:
    """prefix / by, rounded up."""
    if prefix is None:
        return None
    return _greatest([item.divided(by) for item in _terms(prefix)])


def larger(left: Prefix, right: Prefix) -> Prefix:
    """The maximum of two prefixes."""
    if left is None or right is None:
        return None
    return _greatest([*_terms(left), *_terms(right)])


@dataclass(frozen=True)
class _Term:
    """of * factor + offset, or the offset alone if `of` is 0.

    A prefix is the maximum of such terms, each with a different `of` or factor. The form stays small: if many readers
    each need slightly more of a value, nested expressions would double with every reader.
    """

    of: int | str | list
    factor: int
    offset: int

    def divided(self, by: int) -> _Term:
        if self.factor % by == 0:
            return _Term(self.of, self.factor // by, -(-self.offset // by))
        return _Term(["ceildiv", self.expression(), by], 1, 0)

    def expression(self) -> int | str | list:
        if self.of == 0:
            return self.offset
        product = self.of if self.factor == 1 else ["*", self.of, self.factor]
        return product if self.offset == 0 else ["+", product, self.offset]


def _terms(prefix: int | str | list) -> list[_Term]:
    match prefix:
        case int():
            return [_Term(0, 0, prefix)]
        case ["max", left, right]:
            return [*_terms(left), *_terms(right)]
        case ["+", other, int(offset)]:
            return [_Term(item.of, item.factor, item.offset + offset) for item in _terms(other)]
        case ["*", other, int(factor)] if factor > 0:
            return [_Term(item.of, item.factor * factor, item.offset * factor) for item in _terms(other)]
    return [_Term(prefix, 1, 0)]


def _greatest(terms: Sequence[_Term]) -> Prefix:
    """The maximum of all terms in their order; of terms that differ only in the offset, the largest is kept."""
    found: dict[tuple[str, int], _Term] = {}
    for term in terms:
        key = (repr(term.of), term.factor)
        if key not in found or found[key].offset < term.offset:
            found[key] = term
    expressions = [term.expression() for term in found.values()]
    return functools.reduce(lambda left, right: ["max", left, right], expressions)
