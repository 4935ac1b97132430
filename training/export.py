"""Trained weights back in the model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from ..frontend.onnx.reading.statistics import is_training
from ..frontend.onnx.survey import names_read
from ..runtime.trainer import Trainer
from ..support.errors import InputError


def with_weights(
    model: onnx.ModelProto | bytes | str | os.PathLike[str],
    weights: Mapping[str, np.ndarray] | Trainer,
    *,
    for_inference: bool = False,
) -> onnx.ModelProto:
    """Returns a copy of an ONNX model with other weights.

    Args:
        model: the model, its bytes, or the path of its file.
        weights: contents of initializers by name, such as `Trainer.parameters`; or a trainer, whose running statistics
            of batch norms are taken over too.
        for_inference: whether batch norms and dropouts in training mode become those of inference.

    Raises:
        InputError: the model has no initializer of a name, or it has another shape or element type.
    """
    changed = onnx.ModelProto()
    if isinstance(model, onnx.ModelProto):
        changed.CopyFrom(model)
    else:
        changed = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(Path(model))
    known = {tensor.name: tensor for tensor in changed.graph.initializer}
    if isinstance(weights, Trainer):
        carried = {name: array for name, array in weights.state.items() if name in known}
        weights = {**weights.parameters, **carried}
    for name, array in weights.items():
        if name not in known:
            raise InputError(f"the model has no initializer '{name}'; it has {', '.join(known)}")
        tensor = known[name]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        if tuple(tensor.dims) != array.shape or dtype != array.dtype:
            raise InputError(
                f"initializer '{name}' is {dtype.name}{list(tensor.dims)}, but the weight is "
                f"{array.dtype.name}{list(array.shape)}"
            )
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), name))
    if for_inference:
        _end_training(changed.graph)
    return changed


def _end_training(graph: onnx.GraphProto) -> None:
    """Makes nodes in training mode, in inner graphs too, those of inference; drops constants that only they read."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _end_training(attribute.g)
        if node.domain not in ("", "ai.onnx"):
            continue
        if node.op_type == "BatchNormalization" and is_training(node):
            kept = [attribute for attribute in node.attribute if attribute.name != "training_mode"]
            del node.attribute[:], node.output[1:]
            node.attribute.extend(kept)
        elif node.op_type == "Dropout":
            del node.input[1:]
    read = names_read(graph)
    for node in [node for node in graph.node if node.op_type == "Constant" and node.output[0] not in read]:
        graph.node.remove(node)
