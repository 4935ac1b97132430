"""Forms in ONNX of elementwise ops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from mlir import ir
from onnx import helper

from .....dialects.stepwell import elementwise as ops
from .....dialects.types import is_float, spec_of_type
from ..node_writer import NodeWriter
from ..onnx_form import ONNX_FORM, NoOnnxFormError, same


@ONNX_FORM.attach(
    ops.AbsOp,
    ops.AcosOp,
    ops.AcoshOp,
    ops.AddOp,
    ops.AsinOp,
    ops.AsinhOp,
    ops.AtanOp,
    ops.AtanhOp,
    ops.CeilOp,
    ops.CosOp,
    ops.CoshOp,
    ops.DivOp,
    ops.EqualOp,
    ops.ErfOp,
    ops.ExpOp,
    ops.FloorOp,
    ops.GreaterOp,
    ops.HardSwishOp,
    ops.LessOp,
    ops.LogOp,
    ops.MulOp,
    ops.NegOp,
    ops.PowOp,
    ops.ReciprocalOp,
    ops.ReluOp,
    ops.RoundOp,
    ops.SigmoidOp,
    ops.SignOp,
    ops.SinhOp,
    ops.SinOp,
    ops.SoftplusOp,
    ops.SqrtOp,
    ops.SubOp,
    ops.TanhOp,
    ops.TanOp,
)
def namesake(op: Any, nodes: NodeWriter) -> str:
    """The operator with the op's own name: `hard_swish` is HardSwish"""
    words = op.OPERATION_NAME.removeprefix("stepwell.").split("_")
    return nodes.add("".join(word.capitalize() for word in words), *op.operand_values())


ONNX_FORM.attach(ops.GreaterEqualOp)(same("GreaterOrEqual"))
ONNX_FORM.attach(ops.LessEqualOp)(same("LessOrEqual"))
ONNX_FORM.attach(ops.MaximumOp)(same("Max"))
ONNX_FORM.attach(ops.MinimumOp)(same("Min"))
ONNX_FORM.attach(ops.SelectOp)(same("Where"))
ONNX_FORM.attach(ops.EluOp)(same("Elu", "alpha"))
ONNX_FORM.attach(ops.GeluOp)(same("Gelu", "approximate"))
ONNX_FORM.attach(ops.HardSigmoidOp)(same("HardSigmoid", "alpha", "beta"))
ONNX_FORM.attach(ops.LeakyReluOp)(same("LeakyRelu", "alpha"))


@ONNX_FORM.attach(ops.RsqrtOp)
def rsqrt(op: ops.RsqrtOp, nodes: NodeWriter) -> str:
    """Reciprocal(Sqrt(x))"""
    return nodes.add("Reciprocal", nodes.add("Sqrt", op.input))


@ONNX_FORM.attach(ops.SiluOp)
def silu(op: ops.SiluOp, nodes: NodeWriter) -> str:
    """x * Sigmoid(x)"""
    return nodes.add("Mul", op.input, nodes.add("Sigmoid", op.input))


@ONNX_FORM.attach(ops.ClipOp)
def clip(op: ops.ClipOp, nodes: NodeWriter) -> str:
    """Clip, without the bounds that are infinite"""
    bounds = [None if math.isinf(bound) else nodes.scalar_like(op.input, bound) for bound in (op.minimum, op.maximum)]
    return nodes.add("Clip", op.input, *bounds)


@ONNX_FORM.attach(ops.ModOp)
def remainder(op: ops.ModOp, nodes: NodeWriter) -> str:
    """Mod, with the dividend's sign on floats"""
    return nodes.add("Mod", op.lhs, op.rhs, fmod=int(is_float(_dtype(op.result))))


@ONNX_FORM.attach(ops.AndOp, ops.OrOp, ops.XorOp, ops.NotOp)
def bits(op: Any, nodes: NodeWriter) -> str:
    """And, or BitwiseAnd of integers"""
    kind = op.OPERATION_NAME.removeprefix("stepwell.").capitalize()
    prefix = "" if _dtype(op.result) == np.bool_ else "Bitwise"
    return nodes.add(prefix + kind, *op.operand_values())


@ONNX_FORM.attach(ops.ShiftLeftOp, ops.ShiftRightOp)
def shift(op: Any, nodes: NodeWriter) -> str:
    """BitShift, which takes unsigned integers only"""
    dtype = _dtype(op.result)
    if dtype.kind != "u":
        raise NoOnnxFormError(f"ONNX shifts unsigned integers only, not {dtype}")
    return nodes.add("BitShift", op.lhs, op.rhs, direction="LEFT" if isinstance(op, ops.ShiftLeftOp) else "RIGHT")


@ONNX_FORM.attach(ops.MaskOp)
def mask(op: ops.MaskOp, nodes: NodeWriter) -> str:
    """The input or `otherwise`, selected by Where(mask is not 0)"""
    condition = nodes.add("Cast", op.mask, to=helper.np_dtype_to_tensor_dtype(np.dtype(np.bool_)))
    return nodes.add("Where", condition, op.input, nodes.scalar_like(op.input, op.otherwise))


@ONNX_FORM.attach(ops.CastOp)
def cast(op: ops.CastOp, nodes: NodeWriter) -> str:
    """Cast"""
    return nodes.add("Cast", op.input, to=helper.np_dtype_to_tensor_dtype(op.dtype))


def _dtype(value: ir.Value) -> np.dtype:
    return spec_of_type(value.type).dtype
