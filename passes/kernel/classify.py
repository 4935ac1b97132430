"""Kernel class of an op, which selects the fusion rule, the lowering and the schedule."""

from __future__ import annotations

import math

from mlir import ir

from ...dialects.core import Op
from ...dialects.registry import OPS
from ...dialects.stepwell.planar import PlanarConvOp
from ...dialects.stepwell.winograd import WinogradConvOp

# Classes by family (the module that defines the op); `_BY_OP` lists ops that differ from their family.
_BY_FAMILY = {
    "elementwise": "elementwise",
    "contraction": "contraction",
    "pooling": "pooling",
    # Pooling with weighted elements.
    "planar": "pooling",
    "reduction": "reduction",
    "normalization": "reduction",
    "movement": "movement",
    "shape": "movement",
    "sorting": "sorting",
    "cumulative": "cumulative",
    # Each element is computed independently, as in movement.
    "regions": "movement",
    "packed": "contraction",
    "winograd": "winograd",
}
_BY_OP = {
    "stepwell.conv": "convolution",
    "stepwell.conv_transpose": "convolution",
    "stepwell.packed_conv": "convolution",
    "stepwell.packed_conv_transpose": "convolution",
    "stepwell.packed_depthwise_conv": "depthwise",
    "stepwell.packed_grouped_conv": "depthwise",
    "stepwell.local_response_norm": "reduction",
    "stepwell.attention": "attention",
    # A window whose positions are in a table.
    "stepwell.resample": "pooling",
}
ANCHOR_ORDER = (
    "attention",
    "contraction",
    "convolution",
    "winograd",
    "depthwise",
    "pooling",
    "reduction",
    "sorting",
    "cumulative",
    "elementwise",
    "movement",
)
"""The kernel classes in order of priority: ops of earlier classes choose first which other ops they fuse."""
# Ops without a kernel of their own: existing values, or another view of one.
_FREE = {"stepwell.constant", "stepwell.parameter", "stepwell.reshape"}
# Movement ops that address elements by one index per dimension, not by a linear index.
_MOVES_ROWS = {"border", "broadcast_to", "concat", "pad", "resize", "reverse", "slice", "transpose"}


def kernel_class(op: ir.Operation | ir.OpView) -> str | None:
    """The kernel class of a stepwell op; None for other dialects and ops without work (constants, reshapes)."""
    name = op.operation.name
    if name in _FREE or name not in OPS:
        return None
    return _BY_OP.get(name) or _BY_FAMILY.get(_family(OPS[name]))


def works_on_views(op: ir.Operation | ir.OpView) -> bool:
    """Returns whether the op's kernel can read and write parts of larger tensors as fast as whole tensors."""
    kind, name = kernel_class(op), op.operation.name.removeprefix("stepwell.")
    if kind in ("contraction", "convolution", "depthwise"):
        return name.startswith("packed_")
    if kind == "movement":
        return name in _MOVES_ROWS
    return kind in ("elementwise", "pooling", "reduction", "winograd") or name == "tensor.extract_slice"


def _family(op: type[Op]) -> str:
    """The module or package of the dialect that defines an op."""
    return op.__module__.split(".stepwell.", 1)[1].removeprefix("dialects.stepwell.").split(".")[0]


def elements(value: ir.Value) -> int:
    """The number of elements of a static tensor."""
    return math.prod(ir.RankedTensorType(value.type).shape)


def bytes_of(value: ir.Value) -> int:
    """The size in bytes of a static tensor (a bool takes one byte)."""
    return elements(value) * max(1, _bits(ir.RankedTensorType(value.type).element_type) // 8)


def _bits(element: ir.Type) -> int:
    return element.width if isinstance(element, ir.IntegerType | ir.FloatType) else 64


def flops(op: Op) -> int:
    """Floating-point operations of one op: two per multiply-add, one per element of an elementwise op or reduction."""
    result, kind = op.operation.results[0], kernel_class(op)
    if isinstance(op, WinogradConvOp):
        return 2 * _tiles(op) * elements(op.weight)
    if kind in ("contraction", "convolution", "depthwise"):
        lhs, weight = list(op.operation.operands)[:2]
        return 2 * _multiply_adds(op, lhs, weight, result)
    if kind == "attention":
        query, key, value = (ir.RankedTensorType(item.type).shape for item in list(op.operation.operands)[:3])
        return 2 * math.prod(query[:3]) * key[2] * (query[3] + value[3])
    if kind == "sorting":
        # Number of comparisons of a sort: n log n.
        return (
            elements(op.operation.operands[0])
            * ir.RankedTensorType(op.operation.operands[0].type).shape[-1].bit_length()
        )
    if isinstance(op, PlanarConvOp):
        return 2 * elements(result) * math.prod(op.kernel)
    if kind in ("reduction", "pooling"):
        return elements(op.operation.operands[0])
    return elements(result) if kind in ("elementwise", "cumulative") else 0


def _multiply_adds(op: Op, lhs: ir.Value, weight: ir.Value, result: ir.Value) -> int:
    name = op.OPERATION_NAME.removeprefix("stepwell.")
    if name == "matmul":
        depth = ir.RankedTensorType(lhs.type).shape[-2 if op.attribute_values()["transpose_lhs"] else -1]
        return elements(result) * depth
    if name == "packed_matmul":
        return elements(result) * ir.RankedTensorType(lhs.type).shape[-1]
    # Each weight of a convolution is multiplied once per output position (input position if transposed).
    positions = lhs if "transpose" in name else result
    channels = ir.RankedTensorType(positions.type).shape[-1 if _is_channels_last(op) else 1]
    return elements(positions) // channels * elements(weight)


def _tiles(op: WinogradConvOp) -> int:
    """The number of result tiles; each is multiplied once by every transformed weight."""
    batch, height, width, _ = ir.RankedTensorType(op.result.type).shape
    return batch * -(-height // op.tile) * -(-width // op.tile)


def _is_channels_last(op: Op) -> bool:
    return op.attribute_values().get("layout", "channels_last") == "channels_last"
