"""Running statistics of batch norms in training mode: outputs of a trained model, which continue its weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import onnx

from .model import Model
from .names import normal_domain


def with_statistics(model: Model) -> tuple[Model, dict[str, str]]:
    """Makes a model return the next running means and variances of its batch norms in training mode.

    Weights that several norms read are left out, since each norm would continue them.

    Returns:
        The model itself if there are none, else a copy; and the names of the weights by the names of the outputs.
    """
    found = list(_running(model))
    readers = Counter(weight for _, weight in found)
    returned = {value.name for value in model.proto.graph.output}
    continued = {output: weight for output, weight in found if readers[weight] == 1 and output not in returned}
    if not continued:
        return model, {}
    kinds = {weight.name: (weight.data_type, tuple(weight.dims)) for weight in model.initializers}
    changed = onnx.ModelProto()
    changed.CopyFrom(model.proto)
    changed.graph.output.extend(
        onnx.helper.make_tensor_value_info(output, *kinds[weight]) for output, weight in continued.items()
    )
    return replace(model, proto=changed), continued


def _running(model: Model) -> Iterator[tuple[str, str]]:
    """Yields the names of outputs that are running statistics, and of the weights that they continue."""
    weights = {weight.name for weight in model.initializers}
    for node in model.proto.graph.node:
        if node.op_type == "BatchNormalization" and not normal_domain(node.domain) and is_training(node):
            for output, weight in zip(node.output[1:3], node.input[3:5], strict=False):
                if output and weight in weights:
                    yield output, weight


def is_training(node: onnx.NodeProto) -> bool:
    """Returns whether a batch norm is in training mode."""
    return any(attribute.name == "training_mode" and attribute.i for attribute in node.attribute)
