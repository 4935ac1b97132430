"""Whole models that are timed beside torch.compile and ONNX Runtime, with constant weights.

The time of a model does not depend on its weights, and constant weights take no space in the prepared folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .. import bert, models
from .cases import Shape

_LARGE = 1024
_ELEMENT = 0.01


@dataclass(frozen=True)
class WholeModel:
    """A model to time.

    Attributes:
        name: the name in tables.
        make: creates the ONNX model, with splats as weights.
        shapes: shapes of its inputs.
        torch: the module of `torch_models` with the same model.
    """

    name: str
    make: Callable[[], onnx.ModelProto]
    shapes: dict[str, Shape]
    torch: str


def timed() -> list[WholeModel]:
    """Returns the models, at batches of 1 and 64."""
    names = ("input_ids", "attention_mask", "token_type_ids")
    found = [
        WholeModel(
            f"time-minilm-{batch}x128", lambda: light(bert.make_bert()), dict.fromkeys(names, (batch, 128)), "bert"
        )
        for batch in (1, 64)
    ]
    for batch in (1, 64):
        shapes = {"data": (batch, 3, 224, 224)}
        found.append(WholeModel(f"time-resnet50-{batch}", lambda batch=batch: resnet50(batch), shapes, "resnet50"))
    return found


def light(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns a model whose large weights are computed as splats."""
    graph, made, kept = model.graph, [], []
    for weight in graph.initializer:
        if weight.data_type != TensorProto.FLOAT or np.prod(weight.dims) < _LARGE:
            kept.append(weight)
            continue
        kept.append(numpy_helper.from_array(np.array(weight.dims, np.int64), f"{weight.name}.shape"))
        value = numpy_helper.from_array(np.array([_ELEMENT], np.float32))
        made.append(helper.make_node("ConstantOfShape", [f"{weight.name}.shape"], [weight.name], value=value))
    lightened = helper.make_graph([*made, *graph.node], graph.name, graph.input, graph.output, kept)
    return helper.make_model(lightened, opset_imports=model.opset_import, ir_version=model.ir_version)


def splats(parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns parameters that take no space: large ones repeat their first element."""
    return {
        name: np.broadcast_to(array.flat[0], array.shape) if array.size >= _LARGE else array
        for name, array in parameters.items()
    }


def resnet50(batch: int) -> onnx.ModelProto:
    """Returns the package `onnx`'s light ResNet-50 for a batch of images.

    Raises:
        Missing: the package does not contain it.
    """
    (found,) = models.chosen(["light-resnet50"])
    model = onnx.load(found.file(Path()))
    graph = model.graph
    stored = {weight.name for weight in graph.initializer}
    (image,) = (item for item in graph.input if item.name not in stored)
    old, image.name = image.name, "data"
    image.type.tensor_type.shape.dim[0].dim_value = batch
    graph.output[0].type.tensor_type.shape.dim[0].dim_value = batch
    for node in graph.node:
        node.input[:] = ["data" if name == old else name for name in node.input]
        if node.op_type == "Reshape":  # the file's target shape is [1, 2048], for one image
            node.op_type = "Flatten"
            del node.input[1:]
    return model
