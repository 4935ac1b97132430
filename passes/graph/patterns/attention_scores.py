"""The scores of attention as exporters write them: a product, with a scale, a limit, a bias and a mask."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlir import ir

from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.elementwise import AddOp, DivOp, MulOp, SelectOp, TanhOp
from ....dialects.stepwell.movement import ReshapeOp
from ...ir.rewriting import defining_op, has_one_use
from ..values import splat_of


@dataclass
class AttentionScores:
    """The ops between a product and the softmax.

    Attributes:
        scale: factor of the product.
        mask: term added to the product, or condition that selects it.
        bias: a further term, which is added before the mask.
        is_negated: whether the product is selected if the mask is false.
        masked: number selected otherwise.
        cap: limit of the product before the mask; 0 for none.
    """

    scale: float = 1.0
    mask: ir.Value | None = None
    bias: ir.Value | None = None
    is_negated: bool = False
    masked: float = -math.inf
    cap: float = 0.0

    def read(self, value: ir.Value) -> MatmulOp | None:
        """The product from which `value` is computed with only a scale and a mask; None otherwise."""
        while (product := defining_op(value, MatmulOp)) is None:
            before = self._before(value) if has_one_use(value) else None
            if before is None:
                return None
            value = before
        return None if product.transpose_lhs or not has_one_use(value) else product

    def _before(self, value: ir.Value) -> ir.Value | None:
        """The operand of `value` one step closer to the product; records that step."""
        limited = _limited(value) if self.scale == 1 and not self.cap else None
        if limited is not None:
            source, self.scale, self.cap = limited
            return source
        source, factor = factor_of(value)
        if source != value:
            self.scale *= factor
            return source
        source = without_reshape(value)
        if source != value:
            return source
        # A scale after the mask would also scale the mask.
        if self.scale != 1 or self.bias is not None:
            return None
        return self._masked(value) if self.mask is None else self._biased(value)

    def _biased(self, value: ir.Value) -> ir.Value | None:
        for scores, bias in _terms(value):
            if scores.type == value.type and _is_product(scores):
                self.bias = bias
                return scores
        return None

    def _masked(self, value: ir.Value) -> ir.Value | None:
        choice = defining_op(value, SelectOp)
        for scores, mask in _terms(value):
            if scores.type == value.type and _is_score(scores):
                self.mask = mask
                return scores
        pairs = [] if choice is None else [(choice.on_true, choice.on_false), (choice.on_false, choice.on_true)]
        for is_negated, (scores, other) in enumerate(pairs):
            number = splat_of(other)
            if choice is not None and number is not None and scores.type == value.type and _is_score(scores):
                self.mask, self.is_negated, self.masked = choice.condition, bool(is_negated), float(number)
                return scores
        return None


def _terms(value: ir.Value) -> list[tuple[ir.Value, ir.Value]]:
    """Returns the operands of a sum, in both orders; none for other values."""
    total = defining_op(value, AddOp)
    return [] if total is None else [(total.lhs, total.rhs), (total.rhs, total.lhs)]


def _is_score(value: ir.Value) -> bool:
    """Returns whether a value is a product, possibly scaled and reshaped, or a sum with it that has its shape."""
    source = without_reshape(value)
    return _is_product(value) or any(term.type == source.type and _is_product(term) for term, _ in _terms(source))


def _is_product(value: ir.Value) -> bool:
    """Returns whether a value is a product, possibly scaled by a number and reshaped."""
    source = value
    for _ in range(4):
        limited = _limited(source)
        source = without_reshape(factor_of(source)[0] if limited is None else limited[0])
    return defining_op(source, MatmulOp) is not None


def factor_of(value: ir.Value) -> tuple[ir.Value, float]:
    """The operand and the number if `value` is a product or quotient with a number; else `value` and 1."""
    product, quotient = defining_op(value, MulOp), defining_op(value, DivOp)
    for op in (product, quotient):
        number = None if op is None else splat_of(op.rhs)
        if op is not None and number is not None and op.lhs.type == value.type:
            return op.lhs, float(number) if product is not None else 1 / float(number)
    return value, 1.0


def _limited(value: ir.Value) -> tuple[ir.Value, float, float] | None:
    """Returns x, the factor and the limit if `value` is `limit * tanh(x * factor / limit)`; None otherwise."""
    curve, limit = factor_of(value)
    bend = defining_op(curve, TanhOp)
    if bend is None or limit <= 0 or curve == value or not has_one_use(curve):
        return None
    source, factor = factor_of(bend.input)
    return source, factor * limit, limit


def without_reshape(value: ir.Value) -> ir.Value:
    """The operand of a reshape; other values as they are."""
    reshape = defining_op(value, ReshapeOp)
    return value if reshape is None else reshape.input
