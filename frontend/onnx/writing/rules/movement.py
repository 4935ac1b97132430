"""Forms in ONNX of ops that move elements."""

from __future__ import annotations

import numpy as np
from onnx import helper, numpy_helper

from .....dialects.stepwell import movement as ops
from .....dialects.stepwell import shape as shape_ops
from .....dialects.stepwell.windows import CHANNELS_FIRST
from .....dialects.types import spec_of_type
from ..node_writer import NodeWriter
from ..onnx_form import ONNX_FORM, NoOnnxFormError, same, static_shape

_TO_THE_START = np.iinfo(np.int64).min
"""The end of a slice that goes backwards to the first element: any number below minus the extent."""

ONNX_FORM.attach(ops.ConcatOp)(same("Concat", "axis"))
ONNX_FORM.attach(ops.GatherOp)(same("Gather", "axis"))
ONNX_FORM.attach(ops.DynamicSliceOp)(same("Slice"))
ONNX_FORM.attach(ops.DynamicPadOp)(same("Pad", "mode"))
ONNX_FORM.attach(ops.DynamicBroadcastToOp)(same("Expand"))
ONNX_FORM.attach(shape_ops.ShapeOfOp)(same("Shape"))
ONNX_FORM.attach(shape_ops.SizeOfOp)(same("Size"))
ONNX_FORM.attach(shape_ops.RangeOp)(same("Range"))


@ONNX_FORM.attach(ops.ReshapeOp)
def reshape(op: ops.ReshapeOp, nodes: NodeWriter) -> str:
    """Reshape to a constant shape"""
    return nodes.add("Reshape", op.input, nodes.sizes(op.shape), allowzero=int(0 in op.shape))


@ONNX_FORM.attach(ops.DynamicReshapeOp)
def dynamic_reshape(op: ops.DynamicReshapeOp, nodes: NodeWriter) -> str:
    """Reshape"""
    return nodes.add("Reshape", op.input, op.shape, allowzero=int(op.allow_zero))


@ONNX_FORM.attach(ops.TransposeOp)
def transpose(op: ops.TransposeOp, nodes: NodeWriter) -> str:
    """Transpose"""
    return nodes.transposed(op.input, op.permutation)


@ONNX_FORM.attach(ops.SqueezeOp)
def squeeze(op: ops.SqueezeOp, nodes: NodeWriter) -> str:
    """Squeeze"""
    return nodes.add("Squeeze", op.input, nodes.integers(op.axes))


@ONNX_FORM.attach(ops.ExpandDimsOp)
def expand_dims(op: ops.ExpandDimsOp, nodes: NodeWriter) -> str:
    """Unsqueeze"""
    return nodes.add("Unsqueeze", op.input, nodes.integers(op.axes))


@ONNX_FORM.attach(ops.BroadcastToOp)
def broadcast_to(op: ops.BroadcastToOp, nodes: NodeWriter) -> str:
    """Expand"""
    return nodes.add("Expand", op.input, nodes.sizes(op.shape))


@ONNX_FORM.attach(ops.TileOp)
def tile(op: ops.TileOp, nodes: NodeWriter) -> str:
    """Tile"""
    return nodes.add("Tile", op.input, nodes.sizes(op.repeats))


@ONNX_FORM.attach(ops.SliceOp)
def box(op: ops.SliceOp, nodes: NodeWriter) -> str:
    """Slice along the dimensions that are not taken whole"""
    extents = spec_of_type(op.input.type).shape
    entries = list(zip(op.starts, op.stops, op.steps, extents, strict=True))
    axes = [axis for axis, (start, stop, step, extent) in enumerate(entries) if (start, stop, step) != (0, extent, 1)]
    if not axes:
        return nodes.add("Identity", op.input)
    starts, stops, steps = (nodes.sizes([entries[axis][part] for axis in axes]) for part in range(3))
    return nodes.add("Slice", op.input, starts, stops, nodes.integers(axes), steps)


@ONNX_FORM.attach(ops.ReverseOp)
def reverse(op: ops.ReverseOp, nodes: NodeWriter) -> str:
    """Slice backwards"""
    count = len(op.axes)
    back = nodes.integers([-1] * count)
    return nodes.add("Slice", op.input, back, nodes.integers([_TO_THE_START] * count), nodes.integers(op.axes), back)


@ONNX_FORM.attach(ops.PadOp)
def pad(op: ops.PadOp, nodes: NodeWriter) -> str:
    """Pad"""
    value = nodes.scalar_like(op.input, op.value) if op.mode == "constant" else None
    return nodes.add("Pad", op.input, nodes.sizes((*op.low, *op.high)), value, mode=op.mode)


@ONNX_FORM.attach(ops.ResizeOp)
def resize(op: ops.ResizeOp, nodes: NodeWriter) -> str:
    """Resize by the factors, which determine positions; by the sizes if the factors give other sizes"""
    if op.layout != CHANNELS_FIRST:
        raise NoOnnxFormError("ONNX resizes images with channels first only")
    scales = np.asarray(op.scales, np.float32)
    attributes = {
        "mode": op.mode,
        "coordinate_transformation_mode": op.coordinates,
        "nearest_mode": op.nearest,
        "cubic_coeff_a": op.cubic_coefficient,
        "exclude_outside": int(op.exclude_outside),
    }
    if np.isnan(scales).any():
        return nodes.add("Resize", op.input, None, None, nodes.sizes(op.sizes), **attributes)
    extents = np.array(static_shape(op.input))
    if np.array_equal(np.floor(extents.astype(np.float32) * scales), op.sizes):
        return nodes.add("Resize", op.input, None, nodes.constant(scales, "scales"), **attributes)
    if not np.allclose(scales, np.asarray(op.sizes) / extents):
        raise NoOnnxFormError(f"ONNX resizes by factors or to sizes, but {list(scales)} do not give {list(op.sizes)}")
    return nodes.add("Resize", op.input, None, None, nodes.integers(op.sizes), **attributes)


@ONNX_FORM.attach(ops.ScatterOp)
def scatter(op: ops.ScatterOp, nodes: NodeWriter) -> str:
    """ScatterElements, with the index of a slice repeated for each of its elements"""
    if op.count is not None:
        raise NoOnnxFormError("ONNX cannot limit the number of updates that are applied")
    updates = spec_of_type(op.updates.type).shape
    behind = range(spec_of_type(op.indices.type).rank, len(updates))
    indices = nodes.add("Unsqueeze", op.indices, nodes.integers(behind)) if behind else op.indices
    places = nodes.add("Expand", indices, nodes.sizes(updates))
    return nodes.add("ScatterElements", op.input, places, op.updates, axis=op.axis, reduction=op.reduction)


@ONNX_FORM.attach(ops.SampleOp)
def sample(op: ops.SampleOp, nodes: NodeWriter) -> str:
    """GridSample: positions p of n elements become (2 p + 1) / n - 1; 2 p / (n - 1) - 1 if 1 means the last centre"""
    extents = static_shape(op.input)[2:]
    rank, spatial = spec_of_type(op.positions.type).rank, len(extents)
    if rank != spatial + 2:
        raise NoOnnxFormError(f"ONNX samples at a grid of {spatial} dimensions, not of {rank - 2}")
    # The grid has its coordinates last, and in the reverse order of the dimensions.
    moved = nodes.transposed(op.positions, (0, *range(2, rank), 1))
    last = nodes.integers([rank - 1])
    back = nodes.integers([-1])
    reversed_ = nodes.add("Slice", moved, back, nodes.integers([_TO_THE_START]), last, back)
    dtype = spec_of_type(op.positions.type).dtype
    sizes = np.array(extents[::-1], dtype)
    about = int(op.about_edges)
    steps, shift = (2 / np.maximum(sizes - 1, 1), -1.0) if about else (2 / sizes, 1 / sizes - 1)
    scaled = nodes.add("Mul", reversed_, nodes.constant(steps.astype(dtype), "steps"))
    grid = nodes.add("Add", scaled, nodes.constant(np.asarray(shift, dtype), "shift"))
    return nodes.add("GridSample", op.input, grid, mode=op.mode, padding_mode=op.padding, align_corners=about)


@ONNX_FORM.attach(shape_ops.FillOp)
def fill(op: shape_ops.FillOp, nodes: NodeWriter) -> str:
    """ConstantOfShape"""
    return nodes.add("ConstantOfShape", op.shape, value=numpy_helper.from_array(np.asarray(op.value).reshape(1)))


@ONNX_FORM.attach(shape_ops.SizesOp)
def sizes(op: shape_ops.SizesOp, nodes: NodeWriter) -> str:
    """The elements, each computed from the shapes of inputs"""
    if op.divisor != 1:
        raise NoOnnxFormError("ratios of sizes have no form in ONNX")
    cast = nodes.add("Cast", nodes.sizes(op.values), to=helper.np_dtype_to_tensor_dtype(op.dtype))
    return nodes.add("Reshape", cast, nodes.integers(op.shape))
