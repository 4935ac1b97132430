"""Output types of a node that runs on the host, by ONNX's own inference."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from ....passes.infra.guarded import Crash, guarded
from ....runtime.hybrid.plan import HostStep
from ....runtime.program import TensorInfo
from ....runtime.specialization.interfaces import Known
from ..reading.inferred import shape_of_type
from ..reading.model import host_dtype

_SMALL = 64
"""Maximum number of elements of contents that inference takes into account, as they may be a shape."""


def outputs_of(step: HostStep, inputs: Mapping[str, Known], contents: Mapping[str, np.ndarray]) -> list[Known]:
    """The types of a node's outputs; unknown ones for an operator that ONNX does not declare.

    Args:
        step: the node.
        inputs: the types of its inputs by name.
        contents: the contents of some inputs.
    """
    model = onnx.ModelProto.FromString(step.model)
    graph = model.graph
    for value in graph.input:
        _declare(value, inputs.get(value.name, Known()))
    for name, array in contents.items():
        if array.size <= _SMALL and array.dtype != object:
            graph.initializer.append(numpy_helper.from_array(array, name))
    try:  # ONNX's inference crashes for some nodes that do not match their inputs
        data = guarded(lambda note: shape_inference.infer_shapes(model, data_prop=True).SerializeToString())
    except Crash:
        data = None
    inferred = onnx.ModelProto.FromString(data).graph if data is not None else graph
    types = {value.name: value.type for value in (*inferred.value_info, *inferred.output)}
    return [_known(name, types.get(name)) for name in step.outputs]


def _declare(value: onnx.ValueInfoProto, known: Known) -> None:
    info = known.info
    if known.declared:
        value.type.CopyFrom(onnx.TypeProto.FromString(known.declared))
    elif info is not None and info.kind == "tensor":
        is_text = info.dtype == object
        kind = onnx.TensorProto.STRING if is_text else helper.np_dtype_to_tensor_dtype(info.dtype)
        value.CopyFrom(helper.make_tensor_value_info(value.name, kind, [int(dim) for dim in info.shape]))


def _known(name: str, kind: onnx.TypeProto | None) -> Known:
    if kind is None or kind.WhichOneof("value") is None:
        return Known()
    declared, shape = kind.SerializeToString(), shape_of_type(kind)
    if shape is None or not all(isinstance(dim, int) for dim in shape) or not kind.tensor_type.elem_type:
        return Known(None, declared)
    return Known(TensorInfo(name, host_dtype(kind.tensor_type.elem_type, name), shape), declared)
