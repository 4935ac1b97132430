"""Description of an attention kernel, from the roles that lowering/stepwell_to_linalg/attention.py gives to ops.

Loops are letters: `b`atch, `h`ead of key and value, `g` (the query heads that share one of those), `q`uery, `k`ey,
`d`epth, `v`alue depth, `p`art of the keys, each of which has a result of its own (split_keys.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from mlir import ir

from .....dialects import discardable
from .....support.errors import StepwellError
from ...emission.launch import Memory
from ...emission.views import memory_of
from ..elements import root_before
from ..rows.generics import is_read, loop_sizes, maps

LETTERS = "bhgqkdvp"


EXTRA = 4
"""Columns after the sums of a part: the maximum score, the total, and zeros that align rows to 16 bytes."""


class NoAttention(StepwellError):
    """A kernel is not an attention that these emitters support; the message gives the reason."""


@dataclass(frozen=True)
class AttentionOperand:
    """A tensor in memory.

    Attributes:
        base: the function's argument.
        element: element type in memory.
        offset: offset of the first element, in elements.
        strides: stride by loop; loops along which the tensor does not vary are omitted.
        alignment: alignment of the argument's address in bytes.
    """

    base: ir.Value
    element: ir.Type
    offset: int
    strides: Mapping[str, int]
    alignment: int = 16

    def stride(self, letter: str) -> int:
        """Returns the stride along a loop in elements."""
        return self.strides.get(letter, 0)

    def reach(self, sizes: Mapping[str, int], letters: str = LETTERS) -> int:
        """Returns the end of the range of the argument's elements that the operand covers along the given loops."""
        steps = {letter: stride for letter, stride in self.strides.items() if letter in letters}
        return self.offset + sum((sizes[letter] - 1) * stride for letter, stride in steps.items()) + 1


@dataclass(frozen=True)
class Band:
    """Range of keys that a query attends to by position: from `before` keys before it to `after` keys after it."""

    before: int
    after: int


@dataclass(frozen=True)
class Attention:
    """A kernel of one attention.

    Attributes:
        sizes: extent of each loop.
        query: `[b, h, g, q, d]`.
        key: `[b, h, k, d]`.
        value: `[b, h, k, v]`.
        result: `[b, h, g, q, v]`.
        scale: factor of the products of query and key.
        scores: the tensor whose softmax is taken; computed from `products` element by element.
        products: query times key.
        start: initial value of the maximum score.
        inverse: the op that computes a row's factor from its total; None if the result consists of parts.
        last: the op that computes the result from sums and factors.
        known: layout of the tensors that are in memory.
        band: keys that queries attend to by position; None for all.
        part: number of keys per part; 0 if the keys are not split.
    """

    sizes: Mapping[str, int]
    query: AttentionOperand
    key: AttentionOperand
    value: AttentionOperand
    result: AttentionOperand
    scale: float
    scores: ir.Value
    products: ir.Value
    start: float
    inverse: ir.Operation | None
    last: ir.Operation
    known: Mapping[ir.Value, Memory]
    band: Band | None = None
    part: int = 0

    @property
    def has_mask(self) -> bool:
        """True if the scores differ from the scaled products."""
        return self.scores != self.products

    @property
    def hides_before(self) -> bool:
        """True if some query does not attend to keys that lie too far before it."""
        return self.band is not None and self.band.before < self.sizes["q"] - 1

    @property
    def heads(self) -> int:
        """Number of key and value matrices, over batch and heads."""
        return self.sizes["b"] * self.sizes["h"]

    @property
    def flops(self) -> int:
        """Number of multiplications and additions."""
        scores = self.heads * self.sizes["g"] * self.sizes["q"] * self.sizes["k"]
        return 2 * scores * (self.sizes["d"] + self.sizes["v"])


def attention_of(function: ir.Operation, known: Mapping[ir.Value, Memory]) -> Attention:
    """Returns the attention that a function of linalg on tensors computes.

    Args:
        function: inputs first, the destination last.
        known: layout of its arguments in memory.

    Raises:
        NoAttention: it does not compute one.
    """
    block = function.regions[0].blocks[0]
    roles = {role: op.operation for op in block.operations if (role := role_of(op.operation)) is not None}
    end = {"parts"} if "parts" in roles else {"inverse", "result"}
    missing = {"query", "scores", "greatest", "weights", "total", "sum", *end} - set(roles)
    if missing:
        raise NoAttention("it has no op with the role " + sorted(missing)[0])
    sizes = dict.fromkeys(LETTERS, 1)
    for role in ("scores", "sum"):
        sizes.update(zip(loops(roles[role]), loop_sizes(roles[role]), strict=True))
    *_, returned = block.operations
    last = roles["parts"] if "parts" in roles else roles["result"]
    made, written = root_before(function, returned.operands[0], known[block.arguments[len(block.arguments) - 1]])
    if made != last.results[0]:
        raise NoAttention("its result has no strided layout in the destination")
    query, scores, band, part = roles["query"], roles["greatest"].operands[0], None, 0
    if not isinstance(scores.owner, ir.Block) and discardable.PART.is_on(scores.owner):
        part = discardable.PART.required(scores.owner)
        scores = scores.owner.operands[0]
    if not isinstance(scores.owner, ir.Block) and discardable.BAND.is_on(scores.owner):
        band = Band(*discardable.BAND.required(scores.owner))
        scores = scores.owner.operands[0]
    return Attention(
        sizes=sizes,
        query=_memory(query, 0, known),
        key=_copied(roles["scores"], 0, known),
        value=_copied(roles["sum"], 1, known),
        result=_operand(written, maps(last)[-1], loops(last)),
        scale=_scale(query),
        scores=scores,
        products=roles["scores"].results[0],
        start=_start(roles["greatest"]),
        inverse=roles.get("inverse"),
        last=last,
        known=known,
        band=band,
        part=part,
    )


def loops(op: ir.Operation) -> str:
    """Returns the loops of an op as letters."""
    return discardable.LOOPS.required(op)


def operand_of(op: ir.Operation, position: int, known: Mapping[ir.Value, Memory]) -> AttentionOperand | None:
    """Returns an operand in memory, with strides along the loops of the op; None if it is computed."""
    view = memory_of(op.operands[position], known)
    return None if view is None else _operand(view, maps(op)[position], loops(op))


def role_of(op: ir.Operation) -> str | None:
    """Returns the role of an op in an attention kernel; None for ops that only initialize a tensor."""
    if not discardable.ROLE.is_on(op) or op.name != "linalg.generic":
        return None
    return discardable.ROLE.required(op)


def _memory(op: ir.Operation, position: int, known: Mapping[ir.Value, Memory]) -> AttentionOperand:
    found = operand_of(op, position, known)
    if found is None:
        raise NoAttention("an operand is computed in the kernel")
    return found


def _copied(op: ir.Operation, position: int, known: Mapping[ir.Value, Memory]) -> AttentionOperand:
    """Returns an operand, or the source of the copy that makes it: copies have no benefit on a GPU."""
    value = op.operands[position]
    if memory_of(value, known) is None and not isinstance(value.owner, ir.Block):
        source = value.owner.operation
        body = source.regions[0].blocks[0].operations if source.name == "linalg.generic" else []
        if len(body) == 1 and body[0].operands[0] == source.regions[0].blocks[0].arguments[0]:
            return _memory(source, 0, known)
    return _memory(op, position, known)


def _operand(view: Memory, map_: ir.AffineMap, letters: str) -> AttentionOperand:
    strides: dict[str, int] = {}
    for expr, size, stride in zip(map_.results, view.shape, view.strides, strict=True):
        match expr.maybe_downcast():
            case ir.AffineDimExpr(position=position):
                if size > 1:
                    strides[letters[position]] = strides.get(letters[position], 0) + stride
            case ir.AffineConstantExpr(value=0):
                pass
            case _:
                raise NoAttention("an operand's index is not a single loop or zero")
    return AttentionOperand(view.base, ir.ShapedType(view.base.type).element_type, view.offset, strides, view.alignment)


def _scale(query: ir.Operation) -> float:
    """Returns the constant that the query is multiplied by."""
    factors = []
    for op in query.regions[0].blocks[0].operations:
        if op.operation.name not in ("arith.mulf", "arith.extf", "arith.truncf", "linalg.yield"):
            raise NoAttention(f"the query is made by '{op.operation.name}'")
        if op.operation.name != "arith.mulf":
            continue
        constants = [item.owner for item in op.operands if not isinstance(item.owner, ir.Block)]
        factors += [item for item in constants if item.name == "arith.constant"]
    if len(factors) != 1 or not is_read(query, 0):
        raise NoAttention("the query is not multiplied by a constant")
    return ir.FloatAttr(factors[0].attributes["value"]).value


def _start(greatest: ir.Operation) -> float:
    fill = greatest.operands[1].owner
    if isinstance(fill, ir.Block) or fill.name != "linalg.fill" or isinstance(fill.operands[0].owner, ir.Block):
        return -math.inf
    return ir.FloatAttr(fill.operands[0].owner.attributes["value"]).value
