"""Operators that ONNX Runtime's optimiser fuses: products and convolutions with the functions that follow them.

Others here are ONNX's own, from before ONNX defined them.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from .....dialects.stepwell import elementwise as ew
from .....dialects.stepwell.contraction import MatmulOp
from .....dialects.stepwell.movement import ExpandDimsOp
from .....dialects.stepwell.reduction import ReduceSumOp
from .....support.wording import quantity
from ....build import added, emit, rank, scalar, transposed
from ....errors import AttributeFault, NodeError
from ...nodes.node import Node
from ...nodes.registry import handler_for, imports
from ..parts.activations import activations

_MS = "com.microsoft"
Value = ir.Value


@imports("FusedConv", domain=_MS)
def fused_conv(
    node: Node, input: Value, weight: Value, bias: Value | None = None, summand: Value | None = None
) -> Value:
    """FusedConv: a convolution, a sum, and an activation."""
    name, parameters = node.attribute("activation", ""), node.attribute("activation_params", ())
    result = _as_onnx(node, "Conv", 11, [input, weight, bias], "activation", "activation_params")
    return _activated(name, parameters, added(result, summand))


@imports("FusedGemm", domain=_MS)
def fused_gemm(node: Node, a: Value, b: Value, c: Value | None = None) -> Value:
    """FusedGemm: an activation of alpha * A * B + beta * C."""
    own = [f"activation{part}" for part in ("", "_alpha", "_beta", "_gamma")]
    name, *given = (node.attribute(item) for item in own)
    parameters = [item for item in given if item is not None]
    return _activated(name or "", parameters, _as_onnx(node, "Gemm", 13, [a, b, c], *own))


@imports("Trilu", domain=_MS)
def triangle(node: Node, input: Value, k: Value | None = None) -> Value:
    """Trilu."""
    return _as_onnx(node, "Trilu", 14, [input, k])


@imports("Range", domain=_MS)
def arange(node: Node, start: Value, limit: Value, delta: Value | None = None) -> Value:
    """Range; the step is 1 by default."""
    return _as_onnx(node, "Range", 11, [start, limit, scalar(1, start) if delta is None else delta])


@imports("GatherND", domain=_MS)
def gather_nd(node: Node, input: Value, indices: Value) -> Value:
    """GatherND."""
    return _as_onnx(node, "GatherND", 12, [input, indices])


@imports("GridSample", domain=_MS)
def grid_sample(node: Node, input: Value, grid: Value) -> Value:
    """GridSample of images."""
    return _as_onnx(node, "GridSample", 16, [input, grid])


@imports("Pad", domain=_MS)
def pad(node: Node, input: Value, pads: Value, value: Value | None = None) -> Value:
    """Pad."""
    return _as_onnx(node, "Pad", 13, [input, pads, value])


@imports("ExpandDims", domain=_MS)
def expand_dims(node: Node, input: Value, axis: Value) -> Value:
    """ExpandDims: inserts a dimension of extent 1."""
    (place,) = node.integers(axis, "axis")
    return emit(ExpandDimsOp, input, axes=(place if place >= 0 else place + rank(input) + 1,))


@imports("CDist", domain=_MS)
def distances(node: Node, a: Value, b: Value) -> Value:
    """CDist: the distance of each row of A to each row of B, from their squares and products."""
    metric = node.attribute("metric", "sqeuclidean")
    if metric not in ("sqeuclidean", "euclidean"):
        raise AttributeFault(f"attribute 'metric' is '{metric}', which is not one of sqeuclidean, euclidean")
    lengths = [emit(ReduceSumOp, emit(ew.MulOp, item, item), axes=(1,), keepdims=True) for item in (a, b)]
    total = emit(ew.AddOp, lengths[0], transposed(lengths[1], (1, 0)))
    product = emit(MatmulOp, a, b, transpose_rhs=True)
    squares = emit(ew.ReluOp, emit(ew.SubOp, total, emit(ew.MulOp, product, scalar(2, product))))
    return squares if metric == "sqeuclidean" else emit(ew.SqrtOp, squares)


def _as_onnx(node: Node, op_type: str, opset: int, inputs: Sequence[Value | None], *own: str) -> Value:
    """Applies ONNX's operator to the inputs, with the node's attributes except those in `own`."""
    handler = handler_for("", op_type, opset)
    assert handler is not None
    like = node.as_onnx(op_type, opset, own)
    given = list(inputs)
    while given and given[-1] is None:
        del given[-1]
    like.check_inputs(handler, given)
    result = handler(like, *given)
    like.check_all_read()
    return result[0] if isinstance(result, tuple) else result


def _activated(name: str, parameters: Sequence[float], value: Value) -> Value:
    """Applies an activation, given by its name and parameters (alpha, beta)."""
    match name:
        case "":
            return value
        case "Clip":
            if len(parameters) != 2:
                raise NodeError(f"clips with {quantity(len(parameters), 'bound')}, but needs 2")
            return emit(ew.ClipOp, value, minimum=parameters[0], maximum=parameters[1])
        case "HardSwish":
            return emit(ew.HardSwishOp, value)
        case "Selu":
            alpha, gamma = parameters
            return emit(ew.MulOp, emit(ew.EluOp, value, alpha=alpha), scalar(gamma, value))
    return activations([name], parameters[:1], parameters[1:])[0](value)
