"""Fixtures of the references' tests: comparison with ONNX Runtime, and a check of the shape functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from stepwell.dialects import dims
from stepwell.dialects.core import Op
from stepwell.dialects.types import TensorSpec


@pytest.fixture(scope="session")
def run_onnx() -> Callable[..., list[np.ndarray]]:
    """Runs one ONNX operator with ONNX Runtime: `run_onnx("Softmax", x, axis=1)`, None for an absent input."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1

    def run(
        operator: str, *inputs: np.ndarray | None, outputs: int = 1, opset: int = 20, **attributes: Any
    ) -> list[np.ndarray]:
        # ONNX Runtime crashes if some absent inputs are passed explicitly.
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        names = ["" if array is None else f"x{index}" for index, array in enumerate(inputs)]
        given = {name: array for name, array in zip(names, inputs, strict=True) if array is not None}
        results = [f"y{index}" for index in range(outputs)]
        graph = helper.make_graph(
            [helper.make_node(operator, names, results, **attributes)],
            "one",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                for name, array in given.items()
            ],
            [helper.make_empty_tensor_value_info(name) for name in results],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, given)

    return run


@pytest.fixture(scope="session")
def compute() -> Callable[..., list[np.ndarray]]:
    """Computes an op by its reference, and compares its shape function with the result.

    The shape function is called with numbers as extents, and with symbols that are bound afterwards.
    """

    def run(op: type[Op], *operands: np.ndarray | None, **attributes: Any) -> list[np.ndarray]:
        keywords = {field.name: field.default for field in op.attribute_fields()} | attributes
        with np.errstate(all="ignore"):
            results = _listed(op.reference(*operands, **keywords))
        for specs in (_specs(operands, _number), _specs(operands, _symbol)):
            inferred = _listed(op.infer(*specs, **keywords))
            bindings = {f"d{index}_{axis}": size for index, axis, size in _extents(operands)}
            for spec, array in zip(inferred, results, strict=True):
                bound = tuple(dims.bind(dim, bindings) for dim in spec.shape)
                assert spec.dtype == np.asarray(array).dtype
                assert len(bound) == np.ndim(array)
                assert all(
                    not isinstance(dim, int) or dim == size for dim, size in zip(bound, array.shape, strict=True)
                )
        assert all(spec.is_static for spec in _listed(op.infer(*_specs(operands, _number), **keywords)))
        return [np.asarray(result) for result in results]

    return run


def _listed(results: Any) -> list:
    return list(results) if isinstance(results, tuple) else [results]


def _extents(operands: Sequence[np.ndarray | None]) -> list[tuple[int, int, int]]:
    return [
        (index, axis, size)
        for index, array in enumerate(operands)
        if array is not None
        for axis, size in enumerate(array.shape)
    ]


def _specs(operands: Sequence[np.ndarray | None], dim: Callable[..., dims.Dim]) -> list[TensorSpec | None]:
    return [
        None
        if array is None
        else TensorSpec(
            tuple(dim(index, axis, size) for axis, size in enumerate(array.shape)), array.dtype, _small(array)
        )
        for index, array in enumerate(operands)
    ]


def _small(array: np.ndarray) -> np.ndarray | None:
    """Returns shape operands, which are constants to the shape functions, and None for data."""
    return array if array.ndim <= 1 else None


def _number(index: int, axis: int, size: int) -> dims.Dim:
    return size


def _symbol(index: int, axis: int, size: int) -> dims.Dim:
    """Returns a symbol for extents of the first operand; those of others (weights, shape operands) are known."""
    return dims.symbol(f"d{index}_{axis}") if index == 0 else size
