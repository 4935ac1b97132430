"""Attention of few queries to many keys, split into parts of the keys to fill the device (flash decoding).

    %parts[b, h, q, p] = sums, maximum score and total of the weights of the keys of part p     // a separate launch
    %y[b, h, q] = the sum of the parts, each times exp(its maximum - the maximum of all), divided by the total

The order of the sums is fixed, so that results are reproducible.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from .....dialects import discardable
from .....lowering.builders import scalars
from .....lowering.builders.scalars import number
from .....lowering.builders.tensors import filled, pad_with, structured
from .....passes.ir.functions import body_of
from ...emission.bodies import evaluate
from ...emission.generics import inputs_of
from ...emission.views import memories
from ...target import GpuTarget
from ..rows.generics import maps
from .problem import EXTRA, Attention, NoAttention, attention_of, loops, role_of

UNIT = 128
"""Keys of a part are a multiple of this, so that parts are aligned to tiles of any size."""

# Times in microseconds: a tile of 64 keys, one block per multiprocessor; and a launch with its memory traffic.
_TILE, _LAUNCH = 1.2, 4.0
_TILE_KEYS = 64
_BLOCKS_PER_MULTIPROCESSOR = 2
"""Blocks of parts per multiprocessor: a choice; while one waits for memory, another computes."""


def split_long_attention(kernel: ir.Operation, target: GpuTarget, rows: int) -> bool:
    """Splits the keys of a kernel that is one attention, if it leaves most of the device idle.

    Args:
        kernel: a function of linalg on tensors.
        target: the GPU.
        rows: number of rows per block.

    Returns:
        Whether the kernel was split.
    """
    assert target.capability is not None
    try:
        attention = attention_of(kernel, memories(kernel))
    except NoAttention:
        return False
    keys = keys_of_part(attention, rows, target.capability.multiprocessors)
    if keys is None:
        return False
    _Splitter(kernel, attention.start, keys, -(-attention.sizes["k"] // keys)).run()
    return True


def keys_of_part(attention: Attention, rows: int, multiprocessors: int) -> int | None:
    """Returns the number of keys per part; None if splitting does not pay off."""
    sizes = attention.sizes
    blocks = attention.heads * -(-sizes["g"] * sizes["q"] // rows)
    is_odd = attention.band is not None or attention.part or sizes["v"] % EXTRA
    if is_odd or blocks >= multiprocessors:
        return None
    most = multiprocessors * _BLOCKS_PER_MULTIPROCESSOR // blocks
    keys = -(-sizes["k"] // most // UNIT) * UNIT
    whole, parted = (length / _TILE_KEYS * _TILE for length in (sizes["k"], keys))
    return keys if parted + _LAUNCH < whole else None


class _Splitter:
    """Rewrites the ops of an attention, which are identified by their roles."""

    def __init__(self, kernel: ir.Operation, start: float, keys: int, parts: int) -> None:
        self._start, self._keys, self._parts = start, keys, parts
        found = {role_of(op.operation): op.operation for op in body_of(kernel).operations}
        self._roles = {role: op for role, op in found.items() if role is not None}
        self._made: dict[ir.Value, ir.Value] = {}

    def run(self) -> None:
        """Rewrites the kernel."""
        result = self._roles["result"]
        with result.location, ir.InsertionPoint(result):
            self._part_scores()
            for role in ("greatest", "weights", "total", "sum"):
                self._repeat(self._roles[role])
            combined = self._combined(self._gathered())
        result.results[0].replace_all_uses_with(combined)
        for role in ("result", "inverse", "sum", "total", "weights", "greatest"):
            self._roles[role].erase()

    def _part_scores(self) -> None:
        """Adds a dimension of parts to the scores; in each part, the scores of other parts' keys become -inf."""
        scores = self._roles["greatest"].operands[0]
        letters = loops(self._roles["greatest"])
        names, places = _with_part(letters), maps(self._roles["greatest"])[0]
        read = [names.index(letters[ir.AffineDimExpr(expr).position]) for expr in places.results]
        order = _with_part([names[place] for place in read])
        shape = list(ir.RankedTensorType(scores.type).shape)
        shape.insert(order.index("p"), self._parts)

        def select(score: ir.Value, _: ir.Value) -> ir.Value:
            index = ir.IndexType.get()
            key, part = (linalg.IndexOp(names.index(letter)).result for letter in "kp")
            first = arith.muli(part, arith.constant(index, self._keys))
            inside = arith.cmpi(arith.CmpIPredicate.ult, arith.subi(key, first), arith.constant(index, self._keys))
            return arith.select(inside, score, number(-float("inf"), score.type))

        dims = [ir.AffineExpr.get_dim(place) for place in range(len(names))]
        out = tensor.EmptyOp(shape, ir.RankedTensorType(scores.type).element_type).result
        exprs = [[dims[place] for place in read], [dims[names.index(letter)] for letter in order]]
        (made,) = structured([scores], [out], exprs, "p" * len(names), select)
        _name(made.owner, "parted", names)
        discardable.PART.write(made.owner, self._keys)
        self._made[scores] = made

    def _repeat(self, op: ir.Operation) -> None:
        """Repeats an op for every part; the loop over parts precedes that over keys, or comes first."""
        letters, count = loops(op), inputs_of(op)
        names = _with_part(letters)
        operands, exprs = [], []
        for position, (operand, map_) in enumerate(zip(op.operands, maps(op), strict=True)):
            of = [letters[ir.AffineDimExpr(expr).position] if _is_loop(expr) else "" for expr in map_.results]
            is_parted = operand in self._made or position >= count
            operands.append(self._made.get(operand, operand))
            if position >= count and operand not in self._made:
                operands[-1] = self._destination(operand, of)
            exprs.append([_loop(names, letter) for letter in (_with_part(of) if is_parted else of)])
        reduced = set(letters) - {letters[ir.AffineDimExpr(expr).position] for expr in maps(op)[-1].results}
        iterators = "".join("r" if name in reduced else "p" for name in names)
        (made,) = structured(operands[:count], operands[count:], exprs, iterators, lambda *items: evaluate(op, items))
        _name(made.owner, str(role_of(op)), names)
        self._made[op.results[0]] = made

    def _destination(self, old: ir.Value, letters: Sequence[str]) -> ir.Value:
        """Returns a copy, with a dimension of parts, of the tensor that a reduction starts from."""
        kind, order = ir.RankedTensorType(old.type), _with_part(letters)
        shape = list(kind.shape)
        shape.insert(order.index("p"), self._parts)
        start = old.owner.operation
        if start.name == "linalg.fill":
            made = filled(start.operands[0], shape)
            discardable.ROLE.copy(start, made.owner)
            return made
        return tensor.EmptyOp(shape, kind.element_type).result

    def _gathered(self) -> ir.Value:
        """Gathers the inputs of the second launch in one tensor, whose rows are sums, maximum, total and padding."""
        sum_, greatest, total = (self._made[self._roles[role].results[0]] for role in ("sum", "greatest", "total"))
        letters, rows = self._letters("sum"), self._letters("greatest")
        width = ir.RankedTensorType(sum_.type).shape[-1]
        low, element = [0] * len(letters), ir.RankedTensorType(sum_.type).element_type
        padded = pad_with(sum_, low, [*low[:-1], EXTRA], number(0, element))
        order = [*letters[1:-1], "p", letters[-1]]
        shape = dict(zip(letters, ir.RankedTensorType(padded.type).shape, strict=True))
        out = tensor.EmptyOp([shape[letter] for letter in order], element).result

        def choose(item: ir.Value, most: ir.Value, sum_: ir.Value, _: ir.Value) -> ir.Value:
            place = linalg.IndexOp(len(order) - 1).result
            for number_, value in enumerate((most, sum_)):
                at = arith.constant(place.type, width + number_)
                item = arith.select(arith.cmpi(arith.CmpIPredicate.eq, place, at), value, item)
            return item

        names = [letters, rows, self._letters("total"), order]
        exprs = [[_loop(order, letter) for letter in item] for item in names]
        (made,) = structured([padded, greatest, total], [out], exprs, "p" * len(order), choose)
        _name(made.owner, "parts", order)
        discardable.WHOLE.write(made.owner, True)
        return made

    def _combined(self, parts: ir.Value) -> ir.Value:
        """Returns the result, combined from the sums, maximum scores and totals of all parts."""
        letters = [*self._letters("sum")[1:-1], "p", "v"]
        *outer, width = ir.RankedTensorType(self._roles["sum"].results[0].type).shape
        element = ir.RankedTensorType(parts.type).element_type
        sums, greatest, totals = (
            _columns(parts, first, count) for first, count in ((0, width), (width, 1), (width + 1, 1))
        )
        loops_ = [*letters[:-2], "v", "p"]
        along = [
            [_loop(loops_, letter) for letter in letters],
            [_loop(loops_, letter) for letter in [*letters[:-1], ""]],
        ]
        result = [_loop(loops_, letter) for letter in [*letters[:-2], "v"]]
        outs = [filled(number(start, element), [*outer, width]) for start in (self._start, 0, 0)]

        def add(most: ir.Value, total: ir.Value, item: ir.Value, *so_far: ir.Value) -> list[ir.Value]:
            new = arith.select(arith.cmpf(arith.CmpFPredicate.OGT, most, so_far[0]), most, so_far[0])
            # If no key is attended to yet, -inf - (-inf) must not be NaN.
            nothing = arith.cmpf(arith.CmpFPredicate.OEQ, new, number(-float("inf"), element))
            base = arith.select(nothing, number(0, element), new)
            old, own = (scalars.exp_of_normal(arith.subf(value, base)) for value in (so_far[0], most))
            pairs = ((so_far[1], total), (so_far[2], item))
            return [new, *(arith.addf(arith.mulf(sum_, old), arith.mulf(part, own)) for sum_, part in pairs)]

        exprs = [along[1], along[1], along[0], *[result] * 3]
        kinds = "p" * (len(loops_) - 1) + "r"
        _, total, sum_ = structured([greatest, totals, sums], outs, exprs, kinds, add)
        last, inverse = self._roles["result"], self._roles["inverse"]
        names = loops(last)
        places = [_loop(names, letter) for letter in self._letters("sum")[1:]]

        def divide(sum_: ir.Value, total: ir.Value, _: ir.Value) -> ir.Value:
            return evaluate(last, [sum_, evaluate(inverse, [total, None]), None])

        exprs = [places, places, list(maps(last)[-1].results)]
        (made,) = structured([sum_, total], [last.operands[2]], exprs, "p" * len(names), divide)
        return made

    def _letters(self, role: str) -> list[str]:
        """Returns the dimensions of an op's per-part result."""
        op = self._roles[role]
        return ["p", *(loops(op)[ir.AffineDimExpr(expr).position] for expr in maps(op)[-1].results)]


def _with_part(letters: Sequence[str]) -> list[str]:
    """Inserts the letter of parts before the one of keys, or in front."""
    at = letters.index("k") if "k" in letters else 0
    return [*letters[:at], "p", *letters[at:]]


def _is_loop(expr: ir.AffineExpr) -> bool:
    return isinstance(expr, ir.AffineDimExpr)


def _loop(names: Sequence[str], letter: str) -> ir.AffineExpr:
    """Returns the loop of a letter, or the constant 0 if the letter is empty."""
    return ir.AffineExpr.get_dim(names.index(letter)) if letter else ir.AffineExpr.get_constant(0)


def _columns(value: ir.Value, first: int, count: int) -> ir.Value:
    """Returns neighbouring columns of a tensor."""
    kind = ir.RankedTensorType(value.type)
    shape, outer = [*kind.shape[:-1], count], [0] * (kind.rank - 1)
    made = ir.RankedTensorType.get(shape, kind.element_type)
    return tensor.ExtractSliceOp(made, value, [], [], [], [*outer, first], shape, [1] * kind.rank).result


def _name(op: ir.Operation | ir.OpView, role: str, letters: Sequence[str]) -> None:
    discardable.ROLE.write(op, role)
    discardable.LOOPS.write(op, "".join(letters))
