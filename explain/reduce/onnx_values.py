"""Facts about the values of an ONNX model: their types, by inference and by a run on generated inputs."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ...frontend.onnx.reading.inferred import inferred_types
from ...frontend.onnx.reading.model import read_model
from .case import Case, ReduceError
from .onnx_graph import Facts, copied
from .onnx_sizes import MOST_NUMBERS

_LARGEST = 1 << 28
"""Maximum number of elements of an input, 1 GiB of float32: a choice that fits the memory of a trial."""
_DEFAULT_SIZE = 2
"""Size of dimensions without a number: the least that broadcasting does not treat specially."""


def facts_of(case: Case) -> tuple[dict[str, bytes], dict[str, np.ndarray]]:
    """Returns the types of values, as bytes, and the contents of small integer tensors; see `Facts`."""
    model = onnx.ModelProto.FromString(case.data)
    types = dict(inferred_types(read_model(model), dict(case.shapes)))
    contents: dict[str, np.ndarray] = {}
    inputs = made_up_inputs(case, 0)
    for name, array in ({} if inputs is None else _all_values(model, inputs)).items():
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            continue
        types[name] = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        if array.dtype.kind in "biu" and array.size <= MOST_NUMBERS:
            contents[name] = array
    return {name: kind.SerializeToString() for name, kind in types.items()}, contents


def facts_from(found: tuple[dict[str, bytes], dict[str, np.ndarray]] | None) -> Facts:
    """Decodes the result of `facts_of` from another process."""
    types, contents = found or ({}, {})
    return Facts({name: onnx.TypeProto.FromString(data) for name, data in types.items()}, contents)


def made_up_inputs(case: Case, seed: int) -> dict[str, np.ndarray] | None:
    """Generates reproducible contents for the inputs; returns None if one is not a tensor, or is too large."""
    model = onnx.ModelProto.FromString(case.data)
    stored = {tensor.name for tensor in model.graph.initializer}
    made = {}
    for value in model.graph.input:
        if value.name in stored:
            continue
        kind = value.type.tensor_type
        if value.type.WhichOneof("value") != "tensor_type" or kind.elem_type == onnx.TensorProto.STRING:
            return None
        sizes = tuple(dim.dim_value if dim.dim_value > 0 else _DEFAULT_SIZE for dim in kind.shape.dim)
        shape = case.shapes.get(value.name, sizes)
        if np.prod(shape, dtype=float) > _LARGEST:
            return None
        made[value.name] = _contents(shape, helper.tensor_dtype_to_np_dtype(kind.elem_type), seed)
    return made


def _contents(shape: Sequence[int], dtype: np.dtype, seed: int) -> np.ndarray:
    """Returns random contents: floats in [0, 1), or 0 and 1 as integers, which index tables of two entries."""
    random = np.random.default_rng(seed)
    if dtype.kind in "biu":
        return random.integers(0, 2, shape).astype(dtype)
    return random.random(shape).astype(dtype)


def run_reference(data: bytes, inputs: Mapping[str, np.ndarray], reference: str) -> list[Any]:
    """Runs a model with another implementation; returns its outputs.

    Raises:
        ReduceError: the implementation is not installed, or cannot run the model.
    """
    try:
        if reference == "onnxruntime":
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            options.intra_op_num_threads = 1
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
            return list(session.run(None, dict(inputs)))
        from onnx.reference import ReferenceEvaluator

        return list(ReferenceEvaluator(onnx.ModelProto.FromString(data)).run(None, dict(inputs)))
    except Exception as error:  # of any type of the other system
        raise ReduceError(f"{reference} cannot run the model: {type(error).__name__}: {error}") from error


def has_onnxruntime() -> bool:
    """Returns whether ONNX Runtime is installed."""
    return importlib.util.find_spec("onnxruntime") is not None


def _all_values(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Computes every value of the graph in one run; empty if the model does not run."""
    wanted = copied(model)
    names = [name for node in model.graph.node for name in node.output if name]
    del wanted.graph.output[:]
    wanted.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    reference = "onnxruntime" if has_onnxruntime() else "numpy"
    try:
        results = run_reference(wanted.SerializeToString(), inputs, reference)
    except ReduceError:
        return {}
    return dict(zip(names, results, strict=True))
