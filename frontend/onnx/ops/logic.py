"""Comparisons, logic and selection."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.core import Op
from ....dialects.stepwell import elementwise as ew
from ...build import emit, scalar
from ..nodes.node import Node
from ..nodes.registry import OnnxHandler, imports

_BINARY: dict[str, type[Op]] = {
    "And": ew.AndOp,
    "BitwiseAnd": ew.AndOp,
    "BitwiseOr": ew.OrOp,
    "BitwiseXor": ew.XorOp,
    "Equal": ew.EqualOp,
    "Greater": ew.GreaterOp,
    "GreaterOrEqual": ew.GreaterEqualOp,
    "Less": ew.LessOp,
    "LessOrEqual": ew.LessEqualOp,
    "Or": ew.OrOp,
    "Xor": ew.XorOp,
}


def _binary(op: type[Op]) -> OnnxHandler:
    return lambda node, lhs, rhs: emit(op, lhs, rhs)


for _name, _op in _BINARY.items():
    imports(_name)(_binary(_op))


@imports("Not", "BitwiseNot")
def negation(node: Node, input: ir.Value) -> ir.Value:
    """Not."""
    return emit(ew.NotOp, input)


@imports("Where")
def where(node: Node, condition: ir.Value, on_true: ir.Value, on_false: ir.Value) -> ir.Value:
    """Where: selects elements by a condition."""
    return emit(ew.SelectOp, condition, on_true, on_false)


@imports("IsNaN")
def is_nan(node: Node, input: ir.Value) -> ir.Value:
    """IsNaN: true for the only values that differ from themselves."""
    return emit(ew.NotOp, emit(ew.EqualOp, input, input))


@imports("IsInf")
def is_infinite(node: Node, input: ir.Value) -> ir.Value:
    """IsInf, for both signs or one of them."""
    positive, negative = node.attribute("detect_positive"), node.attribute("detect_negative")
    if positive and negative:
        return emit(ew.EqualOp, emit(ew.AbsOp, input), scalar(np.inf, input))
    if not positive and not negative:
        return emit(ew.LessOp, input, scalar(-np.inf, input))
    return emit(ew.EqualOp, input, scalar(np.inf if positive else -np.inf, input))
