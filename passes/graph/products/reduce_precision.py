"""The pass `stepwell-reduce-precision`: computes products in a shorter floating-point type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from mlir import ir

from ....dialects.stepwell.attention import AttentionOp
from ....dialects.stepwell.contraction import ConvOp, MatmulOp
from ....dialects.stepwell.elementwise import AddOp, ClipOp, MulOp, SubOp
from ....dialects.stepwell.elementwise.logic import CastOp
from ....dialects.stepwell.movement import ReshapeOp, SliceOp, TransposeOp
from ....dialects.stepwell.windows import CHANNELS_LAST
from ....machines.costs import kernel_ns
from ....machines.machine import Machine
from ....runtime.program import PRECISIONS
from ...infra.base import Pass, PassError, register
from ...infra.decisions import Decisions, Site, key_of
from ...infra.state import CompileState
from ...ir.locations import names_in
from ...ir.memory_layout import byte_size
from ...ir.rewriting import Pattern, Refusal, Replacement, apply_patterns, defining_op
from ..values import dtype_of, is_fixed, splat_constant

_SHORT = {"bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}
_FLOAT = np.dtype(np.float32)

_DECIDED = "bf16"
"""The type that single products may be decided to have: float16 overflows in many models."""

# tf32 has 11 significant bits of float32's 24: see `_rounded`.
_SPLITTER = np.float32(2**13 + 1)


@register
@dataclass(frozen=True)
class ReducePrecisionPass(Pass):
    """Multiply float32 operands with fewer bits in products, convolutions and attention; sums stay float32.

    Everything else is unchanged: row sums, norms, exponentials, and values computed only from parameters. For `f32`,
    the module's attribute `stepwell.decisions` may name single products to multiply in bf16.

    ```mlir
    %0 = "stepwell.matmul"(%a, %b) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    // -->
    %1 = "stepwell.cast"(%a) {dtype = bf16} : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %2 = "stepwell.cast"(%b) {dtype = bf16} : (tensor<8x2xf32>) -> tensor<8x2xbf16>
    %3 = "stepwell.matmul"(%1, %2) : (tensor<4x8xbf16>, tensor<8x2xbf16>) -> tensor<4x2xbf16>
    %0 = "stepwell.cast"(%3) {dtype = f32} : (tensor<4x2xbf16>) -> tensor<4x2xf32>
    ```

    Preconditions: composites are recognised; weights are not packed yet.

    Attributes:
        precision: `f32` for no change, `bf16`, `f16`, or `tf32`: float32 rounded to the 11 significant bits that tensor
            cores multiply. GPU kernels round as they multiply, so only other targets need this pass for tf32.
    """

    name = "stepwell-reduce-precision"
    precision: str = "f32"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites every product once."""
        if self.precision not in PRECISIONS:
            raise PassError(f"unknown precision '{self.precision}'; known are {', '.join(PRECISIONS)}")
        if self.precision == "tf32":
            apply_patterns(op, (RoundOperands(),), state)
        elif self.precision != "f32":
            apply_patterns(op, (CastOperands(_SHORT[self.precision]), CastAttention(_SHORT[self.precision])), state)
        elif not (decisions := Decisions.of(op, state)).is_idle:

            def is_short(product: MatmulOp | ConvOp) -> bool:
                return decisions.make("f32", lambda: _site(product, state.machine)) == _DECIDED

            apply_patterns(op, (CastOperands(_SHORT[_DECIDED], is_short),), state)


def _is_reducible(op: MatmulOp | ConvOp | AttentionOp) -> bool:
    """Returns whether the op multiplies float32, and not only once at compile time."""
    operands = [value for value in op.operand_values() if value is not None]
    return dtype_of(operands[0]) == _FLOAT and not all(map(is_fixed, operands))


def _site(op: MatmulOp | ConvOp, machine: Machine) -> Site:
    """The types in which a product may multiply."""
    operation = op.operation
    flops, moved = op.flops(), sum(map(byte_size, [value.type for value in (*operation.operands, op.result)]))
    costs: dict[str, float | None] = {"f32": kernel_ns(machine, flops, moved)}
    costs[_DECIDED] = kernel_ns(machine, flops / machine.relative_rate(_DECIDED), moved)
    return Site("precision", key_of(operation), names_in(operation.location), "f32", costs, flops, moved)


@dataclass(frozen=True)
class CastOperands(Pattern[MatmulOp]):
    """matmul(a, b) --> cast(matmul(cast(a), cast(b))); conv(x, w, bias) --> add(cast(conv(cast(x), cast(w))), bias)"""

    dtype: np.dtype
    is_wanted: Callable[[MatmulOp | ConvOp], bool] = lambda op: True
    root = (MatmulOp, ConvOp)

    def rewrite(self, op: MatmulOp | ConvOp) -> Replacement:
        if not _is_reducible(op) or not self.is_wanted(op):
            return None
        first, second, *_ = op.operand_values()
        product = type(op)(_cast(first, self.dtype), _cast(second, self.dtype), **op.attribute_values()).result
        wide = CastOp(product, dtype=_FLOAT).result
        if not isinstance(op, ConvOp) or op.bias is None:
            return wide
        return AddOp(wide, _along_channels(op.bias, op)).result


@dataclass(frozen=True)
class CastAttention(Pattern[AttentionOp]):
    """attention(q, k, v, mask) --> cast(attention(cast(q), cast(k), cast(v), cast(clip(mask))))"""

    dtype: np.dtype
    root = AttentionOp

    def rewrite(self, op: AttentionOp) -> Replacement:
        if not _is_reducible(op):
            return None
        mask = op.mask
        if mask is not None and dtype_of(mask) == _FLOAT:
            if op.zero_empty:
                return Refusal("the mask's -inf marks queries that attend to nothing, which clipping would lose")
            mask = _cast(_within(mask, self.dtype), self.dtype)
        operands = [_cast(value, self.dtype) for value in (op.query, op.key, op.value)]
        made = AttentionOp(*operands, mask, **op.attribute_values())
        return CastOp(made.result, dtype=_FLOAT).result


class RoundOperands(Pattern[MatmulOp]):
    """matmul(a, b) --> matmul(rounded(a), rounded(b)); conv(x, w, bias) likewise

    rounded(x) is c - (c - x) with c = x * (2^13 + 1): x with 11 significant bits (Veltkamp 1968; Dekker 1971), unless c
    overflows, which it does beyond 4e34.
    """

    root = (MatmulOp, ConvOp)

    def rewrite(self, op: MatmulOp | ConvOp) -> Replacement:
        if not _is_reducible(op):
            return None
        if isinstance(op, ConvOp) and op.group > 1 and ir.RankedTensorType(op.weight.type).shape[1] == 1:
            return Refusal("tensor cores do not compute depthwise convolutions")
        first, second, *rest = op.operand_values()
        if is_rounded(first) and is_rounded(second):
            return None
        return type(op)(rounded(first), rounded(second), *rest, **op.attribute_values()).result


def _cast(value: ir.Value, dtype: np.dtype) -> ir.Value:
    """The value in another type, cast where it is computed, so that movement ops move fewer bytes."""
    for kind in (ReshapeOp, TransposeOp, SliceOp):
        moved = defining_op(value, kind)
        if moved is not None:
            return type(moved)(_cast(moved.input, dtype), **moved.attribute_values()).result
    return CastOp(value, dtype=dtype).result


def _along_channels(bias: ir.Value, conv: ConvOp) -> ir.Value:
    """The bias in a shape that broadcasts to the convolution's result."""
    if conv.layout == CHANNELS_LAST:
        return bias
    return ReshapeOp(bias, shape=(*ir.RankedTensorType(bias.type).shape, *[1] * len(conv.strides))).result


def _within(mask: ir.Value, dtype: np.dtype) -> ir.Value:
    """The mask clipped to the range of a narrower type: rows of -inf scores would have no softmax."""
    limit = float(ml_dtypes.finfo(dtype).max)
    return ClipOp(mask, minimum=-limit, maximum=limit).result


def rounded(value: ir.Value) -> ir.Value:
    """The value rounded to 11 significant bits."""
    shape = ir.RankedTensorType(value.type).shape
    large = MulOp(value, splat_constant(_SPLITTER, shape)).result
    return SubOp(large, SubOp(large, value).result).result


def is_rounded(value: ir.Value) -> bool:
    """Returns whether a value is the result of `rounded`."""
    outer = defining_op(value, SubOp)
    inner = None if outer is None else defining_op(outer.rhs, SubOp)
    return outer is not None and inner is not None and outer.lhs == inner.lhs
