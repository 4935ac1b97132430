"""Reduces dimensions: replaces one size by a smaller one throughout a model."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from .onnx_graph import forget_shapes

MOST_NUMBERS = 64
"""Maximum number of elements of an integer tensor that may hold shapes or axes: a choice; larger ones are data."""


def sizes_in(model: onnx.ModelProto) -> list[int]:
    """Returns the sizes of dimensions of inputs and weights, largest first."""
    found = {dim.dim_value for value in model.graph.input for dim in value.type.tensor_type.shape.dim}
    found |= {size for tensor in model.graph.initializer for size in tensor.dims}
    return sorted((size for size in found if size > 1), reverse=True)


def resized(model: onnx.ModelProto, size: int, smaller: int) -> onnx.ModelProto | None:
    """Replaces a size by a smaller one in shapes, weights, and small integer tensors that hold shapes."""
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value == size:
                dim.dim_value = smaller
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.STRING or tensor.data_location == onnx.TensorProto.EXTERNAL:
            return None
        array = numpy_helper.to_array(tensor)
        cut = array[tuple(slice(smaller) if extent == size else slice(None) for extent in array.shape)]
        if array.dtype.kind in "iu" and array.size <= MOST_NUMBERS:
            cut = np.where(cut == size, smaller, cut).astype(array.dtype)
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(cut), tensor.name))
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.INT and attribute.i == size and attribute.name != "axis":
                attribute.i = smaller
            elif attribute.type == onnx.AttributeProto.INTS and attribute.name != "axes":
                attribute.ints[:] = [smaller if number == size else number for number in attribute.ints]
    forget_shapes(model)
    return model
