"""Combining functions of reductions: the op between accumulator and new term, and its neutral element."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import arith

_FLOAT_NEUTRAL = {
    "arith.addf": 0.0,
    "arith.mulf": 1.0,
    "arith.maximumf": -math.inf,
    "arith.maxnumf": -math.inf,
    "arith.minimumf": math.inf,
    "arith.minnumf": math.inf,
}
_INTEGER_NEUTRAL = {
    "arith.addi": 0,
    "arith.muli": 1,
    "arith.ori": 0,
    "arith.xori": 0,
    "arith.andi": -1,
    "arith.maxui": 0,
    "arith.minui": -1,
}
_GREATER = ("ogt", "oge", "ugt", "uge", "sgt", "sge")
_LESS = ("olt", "ole", "ult", "ule", "slt", "sle")


@dataclass(frozen=True)
class Combiner:
    """Associative and commutative combining function of a reduction: `combine(accumulator, term)`.

    Attributes:
        term: the combined value, a value of the reduction's body that does not depend on the accumulator.
        accumulator: the body's argument that holds the value accumulated so far.
        ops: the combining ops of the body; the last one gives the result.
        neutral: the neutral element.
    """

    term: ir.Value
    accumulator: ir.Value
    ops: tuple[ir.Operation, ...]
    neutral: int | float

    @property
    def type(self) -> ir.Type:
        """The type of the accumulator."""
        return self.accumulator.type

    def start(self) -> ir.Value:
        """Returns the neutral element as a constant."""
        if isinstance(self.type, ir.FloatType):
            return arith.constant(self.type, ir.FloatAttr.get(self.type, self.neutral))
        return arith.constant(self.type, ir.IntegerAttr.get(self.type, int(self.neutral)))

    def combine(self, accumulator: ir.Value, term: ir.Value) -> ir.Value:
        """Combines an accumulator with a term or with another accumulator."""
        known = {self.accumulator: accumulator, self.term: term}
        for op in self.ops:
            operands = [known[operand] for operand in op.operands]
            attributes = {name: op.attributes[name] for name in op.attributes}
            made = ir.Operation.create(op.name, [op.results[0].type], operands, attributes)
            known[op.results[0]] = made.results[0]
        return known[self.ops[-1].results[0]]


def combiner(reduction: ir.Operation) -> Combiner | None:
    """Returns the combining function of a linalg.generic; None if its terms cannot be reordered."""
    block = reduction.regions[0].blocks[0]
    accumulator = block.arguments[len(block.arguments) - 1]
    *_, yielded = block.operations
    if len(yielded.operands) != 1 or isinstance(yielded.operands[0].owner, ir.Block):
        return None
    last = yielded.operands[0].owner.operation
    ops = _chain(last)
    operands = {operand for op in ops for operand in op.operands} - {op.results[0] for op in ops}
    terms = operands - {accumulator}
    if accumulator not in operands or len(terms) != 1:
        return None
    (term,) = terms
    neutral = _neutral(last, term, accumulator)
    if neutral is None or _needs(term, accumulator, block) or term.type != accumulator.type:
        return None
    return Combiner(term, accumulator, ops, neutral)


def _chain(last: ir.Operation) -> tuple[ir.Operation, ...]:
    if last.name == "arith.select" and not isinstance(last.operands[0].owner, ir.Block):
        return last.operands[0].owner.operation, last
    return (last,)


def _neutral(last: ir.Operation, term: ir.Value, accumulator: ir.Value) -> int | float | None:
    if last.name in _FLOAT_NEUTRAL:
        return _FLOAT_NEUTRAL[last.name]
    if last.name == "arith.select":
        return _neutral_of_choice(last, term, accumulator)
    if not isinstance(accumulator.type, ir.IntegerType):
        return None
    least, greatest = (getattr(np.iinfo(f"int{max(8, accumulator.type.width)}"), name) for name in ("min", "max"))
    return {"arith.maxsi": least, "arith.minsi": greatest, **_INTEGER_NEUTRAL}.get(last.name)


def _neutral_of_choice(select: ir.Operation, term: ir.Value, accumulator: ir.Value) -> int | float | None:
    """Returns the neutral element of a minimum or maximum in the form `a > b ? a : b`."""
    compare = select.operands[0].owner.operation
    if compare.name not in ("arith.cmpf", "arith.cmpi"):
        return None
    pair, chosen = list(compare.operands), list(select.operands)[1:]
    if {*pair} != {term, accumulator} or {*chosen} != {term, accumulator}:
        return None
    kind = arith.CmpFPredicate if compare.name == "arith.cmpf" else arith.CmpIPredicate
    name = kind(ir.IntegerAttr(compare.attributes["predicate"]).value).name.lower()
    if name not in _GREATER + _LESS:
        return None
    takes_greater = (name in _GREATER) == (pair == chosen)
    if isinstance(term.type, ir.FloatType):
        return -math.inf if takes_greater else math.inf
    if name.startswith("u"):
        return 0 if takes_greater else -1
    limits = np.iinfo(f"int{max(8, ir.IntegerType(term.type).width)}")
    return int(limits.min if takes_greater else limits.max)


def _needs(value: ir.Value, needed: ir.Value, block: ir.Block) -> bool:
    if value == needed:
        return True
    if isinstance(value.owner, ir.Block) or value.owner.operation.block != block:
        return False
    return any(_needs(operand, needed, block) for operand in value.owner.operation.operands)
