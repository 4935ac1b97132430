"""Elements of what an attention kernel computes one by one: masked scores, and the end of a row."""

from __future__ import annotations

from collections.abc import Mapping

from mlir import ir

from .. import memory
from ..bodies import evaluate
from ..integers import Int
from ..rows.axes import element_bytes
from ..rows.generics import is_read, maps
from .problem import Attention, NoAttention, Operand, loops, operand_of

Places = Mapping[str, Int]
"""Where each loop is."""
MOST_ELEMENTS = 2**31 - 1
"""What is counted in 32 bits."""


class Scores:
    """Computes scores of products: adds masks, or puts something in the place of what is masked."""

    def __init__(self, attention: Attention, pointers: Mapping[ir.Value, ir.Value]) -> None:
        """Prepares for a kernel whose arguments are at `pointers`."""
        self._attention, self._pointers = attention, pointers

    def score(self, product: ir.Value, places: Places) -> ir.Value:
        """The score of a scaled product."""
        return self._element(self._attention.scores, product, places)

    def _element(self, value: ir.Value, product: ir.Value, places: Places) -> ir.Value:
        if value == self._attention.products:
            return product
        op = value.owner.operation
        arguments = []
        for position, operand in enumerate(op.operands):
            if not is_read(op, position):
                arguments.append(None)
                continue
            if operand == self._attention.products:
                arguments.append(product)
                continue
            memory_ = operand_of(op, position, self._attention.known)
            if memory_ is None:
                own = dict(zip(loops(operand.owner.operation), _along(op, position, places), strict=True))
                arguments.append(self._element(operand, product, own))
                continue
            offset = Int(0)
            for letter, stride in memory_.strides.items():
                offset = offset + places[letter] * stride
            address = memory.element_pointer(self._pointers[memory_.base], memory_.element, offset, memory_.offset)
            arguments.append(memory.load(memory_.element, address, element_bytes(memory_.element)))
        return evaluate(op, arguments)


def check(attention: Attention) -> None:
    """Refuses scores that `Scores` cannot compute.

    Raises:
        NoAttention: says what is wrong.
    """
    read: list[Operand] = []
    pending = [attention.scores]
    while pending:
        value = pending.pop()
        if value == attention.products:
            continue
        if isinstance(value.owner, ir.Block) or value.owner.name != "linalg.generic":
            raise NoAttention("scores are made of something else than products and what is in memory")
        op = value.owner.operation
        for position, operand in enumerate(op.operands):
            memory_ = operand_of(op, position, attention.known) if is_read(op, position) else None
            if memory_ is not None:
                read.append(memory_)
            elif is_read(op, position):
                pending.append(operand)
    if any(operand.reach(attention.sizes) > MOST_ELEMENTS for operand in read):
        raise NoAttention("a mask has more elements than 32 bits can count")


def _along(op: ir.Operation, position: int, places: Places) -> list[Int]:
    """Where the dimensions of an operand are, of an op whose loops are at `places`."""
    letters = loops(op)
    found = []
    for expr in maps(op)[position].results:
        dim = expr.maybe_downcast()
        found.append(places[letters[dim.position]] if isinstance(dim, ir.AffineDimExpr) else Int(0))
    return found
