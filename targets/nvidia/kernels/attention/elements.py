"""Element-by-element parts of an attention kernel: masked scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir
from mlir.dialects import arith, vector

from ...emission.bodies import evaluate
from ...emission.indices import MOST_ELEMENTS
from ...instructions import memory
from ...instructions.integers import Int
from ..rows.axes import element_bytes
from ..rows.generics import is_read, maps
from .problem import Attention, AttentionOperand, NoAttention, loops, operand_of

LoopIndices = Mapping[str, Int]
"""Index of each loop, by letter."""


class Scores:
    """Computes scores from products: adds masks, or replaces masked scores."""

    def __init__(self, attention: Attention, pointers: Mapping[ir.Value, ir.Value]) -> None:
        """Prepares for a kernel with its arguments at `pointers`."""
        self._attention, self._pointers = attention, pointers

    def scores(self, products: Sequence[ir.Value], places: LoopIndices) -> list[ir.Value]:
        """Returns the scores for scaled products of neighbouring keys.

        Args:
            products: one product per key; the index of the first key must be a multiple of their number.
            places: index of each loop, at the first key.
        """
        return self._elements(self._attention.scores, products, places)

    def _elements(self, value: ir.Value, products: Sequence[ir.Value], places: LoopIndices) -> list[ir.Value]:
        if value == self._attention.products:
            return list(products)
        op = value.owner.operation
        arguments: list[Sequence[ir.Value | None]] = []
        for position, operand in enumerate(op.operands):
            if not is_read(op, position):
                arguments.append([None] * len(products))
                continue
            if operand == self._attention.products:
                arguments.append(products)
                continue
            memory_ = operand_of(op, position, self._attention.known)
            if memory_ is None:
                own = dict(zip(loops(operand.owner.operation), _along(op, position, places), strict=True))
                arguments.append(self._elements(operand, products, own))
                continue
            arguments.append(self._loaded(memory_, places, len(products)))
        return [evaluate(op, list(lane)) for lane in zip(*arguments, strict=True)]

    def _loaded(self, operand: AttentionOperand, places: LoopIndices, count: int) -> list[ir.Value]:
        """Loads the elements of neighbouring keys, with one access if the operand's layout permits."""
        offset, width = Int(0), element_bytes(operand.element)
        for letter, stride in operand.strides.items():
            offset = offset + places[letter] * stride
        step = operand.stride("k")
        address = memory.element_pointer(self._pointers[operand.base], operand.element, offset, operand.offset)
        if step == 0:
            return [memory.load(operand.element, address, width)] * count
        if count > 1 and is_read_at_once(operand, self._attention.sizes, count):
            return _neighbours(operand.element, address, count)
        addresses = [memory.element_pointer(address, operand.element, Int(0), lane * step) for lane in range(count)]
        return [memory.load(operand.element, place, width) for place in addresses]


def _neighbours(element: ir.Type, address: ir.Value, count: int) -> list[ir.Value]:
    width = element_bytes(element)
    if width > 1:
        value = memory.load(ir.VectorType.get([count], element), address, width * count)
        return [vector.extract(value, [], [lane]) for lane in range(count)]
    # As a vector, LLVM would read the bytes one by one.
    word = ir.IntegerType.get_signless(8 * count)
    value = memory.load(word, address, count)
    shifted = [arith.shrui(value, arith.constant(word, 8 * lane)) for lane in range(count)]
    return [arith.trunci(element, item) for item in shifted]


def is_read_at_once(operand: AttentionOperand, sizes: Mapping[str, int], count: int) -> bool:
    """Returns whether every group of `count` neighbouring keys is contiguous and aligned to its size."""
    steps = [stride for letter, stride in operand.strides.items() if letter != "k" and sizes[letter] > 1]
    whole = not any(number % count for number in (operand.offset, sizes["k"], *steps))
    return whole and operand.stride("k") == 1 and operand.alignment % (count * element_bytes(operand.element)) == 0


def check(attention: Attention) -> None:
    """Rejects scores that `Scores` cannot compute.

    Raises:
        NoAttention: the scores are unsupported; the message gives the reason.
    """
    read: list[AttentionOperand] = []
    pending = [attention.scores]
    while pending:
        value = pending.pop()
        if value == attention.products:
            continue
        if isinstance(value.owner, ir.Block) or value.owner.name != "linalg.generic":
            raise NoAttention("scores depend on ops other than elementwise ops on products and memory")
        op = value.owner.operation
        for position, operand in enumerate(op.operands):
            memory_ = operand_of(op, position, attention.known) if is_read(op, position) else None
            if memory_ is not None:
                read.append(memory_)
            elif is_read(op, position):
                pending.append(operand)
    if any(operand.reach(attention.sizes) > MOST_ELEMENTS for operand in read):
        raise NoAttention("a mask has more elements than 32 bits can count")


def _along(op: ir.Operation, position: int, places: LoopIndices) -> list[Int]:
    """Returns the indices of an operand of an op whose loops are at `places`."""
    letters = loops(op)
    found = []
    for expr in maps(op)[position].results:
        dim = expr.maybe_downcast()
        found.append(places[letters[dim.position]] if isinstance(dim, ir.AffineDimExpr) else Int(0))
    return found
