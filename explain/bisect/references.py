"""Expected values of an ONNX graph, computed by ONNX Runtime or by ONNX's reference implementation."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from ...frontend.onnx.reading.model import Model
from ...frontend.onnx.reading.weights import tensor_array
from ...support.errors import StepwellError

REFERENCES = ("onnxruntime", "numpy")


class ReferenceError(StepwellError):
    """Raised if a reference cannot run the model; the message says why."""


def default_reference() -> str:
    """Returns ONNX Runtime if it is installed, else numpy."""
    return REFERENCES[0] if importlib.util.find_spec("onnxruntime") else REFERENCES[1]


def values_of(model: Model, inputs: Mapping[str, np.ndarray], reference: str) -> dict[str, np.ndarray]:
    """Computes the expected contents of every value of the model's graph, by name.

    Args:
        model: the model.
        inputs: the model's inputs.
        reference: "onnxruntime", or "numpy" for ONNX's own implementation.

    Raises:
        ReferenceError: the reference cannot run the model.
    """
    proto = _complete(model)
    run = _by_onnxruntime if reference == "onnxruntime" else _by_numpy
    try:
        found = run(proto, inputs)
    except Exception as error:  # of any type of the other system
        raise ReferenceError(f"{reference} cannot run the model: {str(error).splitlines()[0]}") from error
    return {name: np.asarray(array) for name, array in found.items() if isinstance(array, np.ndarray | np.generic)}


def _complete(model: Model) -> onnx.ModelProto:
    """Returns the model with all its weights included."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    del proto.graph.initializer[:]
    for tensor in model.initializers:
        is_beside = tensor.data_location == onnx.TensorProto.EXTERNAL
        array = numpy_helper.from_array(tensor_array(tensor, model.folder), tensor.name) if is_beside else tensor
        proto.graph.initializer.append(array)
    return proto


def _by_onnxruntime(proto: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> Any:
    import onnxruntime

    given = {output.name for output in proto.graph.output}
    inner = {name for node in proto.graph.node for name in node.output if name} - given
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(inner))
    options = onnxruntime.SessionOptions()
    # Run each node separately, as in the model.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    taken = {item.name for item in session.get_inputs()}
    names = [item.name for item in session.get_outputs()]
    results = session.run(names, {name: array for name, array in inputs.items() if name in taken})
    return dict(zip(names, results, strict=True))


def _by_numpy(proto: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> Any:
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class BatchNormalization(OpRun):
        """Replaces ONNX's own, which before opset 14 takes `momentum` for training and uses the batch's statistics."""

        def _run(self, x, scale, bias, mean, var, epsilon=1e-5, **_):
            shape = (-1, *[1] * (x.ndim - 2))
            factor = scale / np.sqrt(var + epsilon)
            return (((x - mean.reshape(shape)) * factor.reshape(shape) + bias.reshape(shape)).astype(x.dtype),)

    version = next((entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), 0)
    with np.errstate(all="ignore"):
        found = ReferenceEvaluator(proto, new_ops=[BatchNormalization] if version < 14 else None).run(
            None, dict(inputs), intermediate=True
        )
    assert isinstance(found, dict)
    return found
