"""Types of a graph's values by ONNX's own inference, run without the weights that it would have to copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import helper, shape_inference

from ....passes.infra.guarded import Crash, guarded
from .model import Model

_SMALL = 64
"""Maximum number of elements of weights that inference receives; small weights are often shapes that it needs."""


def inferred_types(
    model: Model, shapes: Mapping[str, Sequence[int]] | None = None, suspect: int | None = None
) -> dict[str, onnx.TypeProto]:
    """The inferred type of every value of a model's graph (not of inner graphs), by name.

    Args:
        model: the model.
        shapes: shapes for some inputs.
        suspect: position of a node that may not match its inputs; it is left out, as inference may read out of bounds.
    """
    skeleton = _without_weights(model, shapes or {})
    if suspect is not None:
        del skeleton.graph.node[suspect]
    graph = _inferred(skeleton).graph
    return {value.name: value.type for value in (*graph.value_info, *graph.output, *graph.input) if _is_known(value)}


def _inferred(skeleton: onnx.ModelProto) -> onnx.ModelProto:
    """Adds the inferred types to a model; returns it unchanged if a node is invalid, which the importer will report.

    For some invalid nodes ONNX's inference overflows the stack or reads out of bounds.
    """
    try:
        data = guarded(lambda note: shape_inference.infer_shapes(skeleton, data_prop=True).SerializeToString())
    except Crash:
        return skeleton
    return skeleton if data is None else onnx.ModelProto.FromString(data)


def _is_known(value: onnx.ValueInfoProto) -> bool:
    kind = value.type.WhichOneof("value")
    return kind is not None and (kind != "tensor_type" or value.type.tensor_type.elem_type != 0)


def _without_weights(model: Model, shapes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    """A copy of the model whose larger weights are inputs."""
    proto, graph = model.proto, model.proto.graph
    bare = onnx.ModelProto(ir_version=proto.ir_version)
    bare.opset_import.extend(proto.opset_import)
    bare.functions.extend(proto.functions)
    bare.graph.name = graph.name or "graph"
    bare.graph.node.extend(graph.node)
    bare.graph.output.extend(graph.output)
    bare.graph.value_info.extend(graph.value_info)
    stored = {tensor.name for tensor in model.initializers}
    for value in graph.input:
        if value.name not in stored:
            bare.graph.input.append(_with_shape(value, shapes.get(value.name)))
    for tensor in model.initializers:
        size = 1
        for dim in tensor.dims:
            size *= dim
        if size <= _SMALL and tensor.data_location != onnx.TensorProto.EXTERNAL:
            bare.graph.initializer.append(tensor)
        else:
            bare.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return bare


def _with_shape(value: onnx.ValueInfoProto, shape: Sequence[int] | None) -> onnx.ValueInfoProto:
    if shape is None or value.type.WhichOneof("value") != "tensor_type":
        return value
    return helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, shape)


def shape_of_type(kind: onnx.TypeProto | None) -> tuple[int | str, ...] | None:
    """The shape in a tensor's type, with "?" for unknown extents; None if not even the rank is known."""
    if kind is None or kind.WhichOneof("value") != "tensor_type" or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    return tuple(dim.dim_value if dim.WhichOneof("value") == "dim_value" else dim.dim_param or "?" for dim in dims)
