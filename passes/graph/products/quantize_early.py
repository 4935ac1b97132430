"""The pass `stepwell-quantize-early`: quantises values before pooling, concatenation and enlargement of images."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlir import ir

from ....dialects.core import Op
from ....dialects.registry import view_of
from ....dialects.specs import size_of
from ....dialects.stepwell.elementwise import AddOp, ClipOp, DivOp, MulOp, RoundOp
from ....dialects.stepwell.elementwise.logic import CastOp
from ....dialects.stepwell.movement import ConcatOp, ResizeOp
from ....dialects.stepwell.pooling import MaxPoolOp
from ....dialects.stepwell.shapes import BYTES
from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.rewriting import Pattern, Replacement, apply_patterns, has_one_use
from ..values import constant_of, dtype_of, static_shapes

_STEPS = (AddOp, ClipOp, DivOp, MulOp, RoundOp)
"""Ops of a quantisation, before the cast."""


@register
@dataclass(frozen=True)
class QuantizeEarlyPass(Pass):
    """Quantise values to bytes before max pooling, concatenation and enlargement of images instead of after them.

    These ops choose among elements, and quantisation does not change their order, so the bytes are the same. They then
    move a quarter of the data, and the kernel that computes the elements stores bytes.

    ```mlir
    %1 = "stepwell.max_pool"(%0) {...} : (tensor<1x8x4x4xf32>) -> tensor<1x8x2x2xf32>
    %2 = "stepwell.div"(%1, %scale) : (tensor<1x8x2x2xf32>, tensor<f32>) -> tensor<1x8x2x2xf32>
    %3 = "stepwell.round"(%2) : (tensor<1x8x2x2xf32>) -> tensor<1x8x2x2xf32>
    %4 = "stepwell.clip"(%3) {minimum = 0.0, maximum = 255.0} : (tensor<1x8x2x2xf32>) -> tensor<1x8x2x2xf32>
    %5 = "stepwell.cast"(%4) {dtype = ui8} : (tensor<1x8x2x2xf32>) -> tensor<1x8x2x2xui8>
    // -->
    %1 = "stepwell.div"(%0, %scale) : (tensor<1x8x4x4xf32>, tensor<f32>) -> tensor<1x8x4x4xf32>
    ...
    %4 = "stepwell.cast"(%3) {dtype = ui8} : (tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xui8>
    %5 = "stepwell.max_pool"(%4) {...} : (tensor<1x8x4x4xui8>) -> tensor<1x8x2x2xui8>
    ```

    Scales and zero points are single constants.
    """

    name = "stepwell-quantize-early"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Applies the pattern to a fixed point."""
        apply_patterns(op, (QuantizeBeforeChoice(),), state)


class QuantizeBeforeChoice(Pattern[CastOp]):
    """quantize(max_pool(x)) --> max_pool(quantize(x)); concat and a resize to nearest elements likewise"""

    root = CastOp

    def rewrite(self, op: CastOp) -> Replacement:
        if dtype_of(op.result) not in BYTES:
            return None
        steps, value = _steps(op)
        maker = None if isinstance(value.owner, ir.Block) else view_of(value.owner)
        if not any(isinstance(step, RoundOp) for step in steps) or not has_one_use(value) or not _chooses(maker):
            return None
        assert maker is not None
        if isinstance(maker, MaxPoolOp) and not all(map(_keeps_order, steps)):
            return None
        operands = [_repeated(steps, operand) for operand in maker.operand_values() if operand is not None]
        return type(maker)(*operands, **maker.attribute_values()).operation.results[0]


def _steps(op: CastOp) -> tuple[list[Op], ir.Value]:
    """Returns the ops of a quantisation, the cast last, and the value that is quantised."""
    steps: list[Op] = [op]
    value = op.input
    while not isinstance(value.owner, ir.Block):
        step = view_of(value.owner)
        if not isinstance(step, _STEPS) or not has_one_use(value):
            break
        first, *others = step.operation.operands
        if any(size_of(other) != 1 or constant_of(other) is None for other in others) or first.type != value.type:
            break
        steps.insert(0, step)
        value = first
    return steps, value


def _chooses(op: Op | None) -> bool:
    """Returns whether every element of the result is one of an operand's, and there are no fewer, but for a maximum."""
    if isinstance(op, ResizeOp):
        shapes = static_shapes(op.input, op.result)
        if op.mode != "nearest" or shapes is None:
            return False
        before, after = map(math.prod, shapes)
        return bool(before <= after)
    return isinstance(op, MaxPoolOp | ConcatOp)


def _keeps_order(step: Op) -> bool:
    """Returns whether a step of a quantisation does not decrease."""
    if not isinstance(step, DivOp | MulOp):
        return True
    number = constant_of(step.operation.operands[1])
    return number is not None and bool((number > 0).all())


def _repeated(steps: list[Op], value: ir.Value) -> ir.Value:
    """Emits the steps of a quantisation for another value."""
    for step in steps:
        others = list(step.operation.operands)[1:]
        value = type(step)(value, *others, **step.attribute_values()).operation.results[0]
    return value
