"""Trained weights back in the model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from ..support.errors import InputError


def with_weights(
    model: onnx.ModelProto | bytes | str | os.PathLike[str], weights: Mapping[str, np.ndarray]
) -> onnx.ModelProto:
    """Returns a copy of an ONNX model with other weights, such as `Trainer.parameters`.

    Args:
        model: the model, its bytes, or the path of its file.
        weights: contents of initializers by name.

    Raises:
        InputError: the model has no initializer of a name, or it has another shape or element type.
    """
    changed = onnx.ModelProto()
    if isinstance(model, onnx.ModelProto):
        changed.CopyFrom(model)
    else:
        changed = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(Path(model))
    known = {tensor.name: tensor for tensor in changed.graph.initializer}
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
    return changed
