"""Kernels without a large outer loop are distributed to threads too; the number of threads does not change results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(0)


def model(nodes: list[onnx.NodeProto], shape: tuple[int, ...], **weights: np.ndarray) -> onnx.ModelProto:
    """A model with one input x and one output y."""
    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    ports = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape), onnx.ValueInfoProto(name="y")
    graph = helper.make_graph(nodes, "shared", ports[:1], ports[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def check(made: onnx.ModelProto, reference: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...]) -> None:
    x = RANDOM.standard_normal(shape, np.float32)
    results = []
    for threads in (1, 2, 3):
        run = stepwell.compile(made, threads=threads)
        run(x)
        assert run.programs[0].uses_threads
        results.append(run(x))
    np.testing.assert_allclose(results[0], reference(x), rtol=1e-4, atol=1e-4)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.parametrize("shape", [(1, 24, 160, 160), (1, 3, 400, 400)])
def test_averages_of_few_channels(shape: tuple[int, ...]) -> None:
    made = model([helper.make_node("GlobalAveragePool", ["x"], ["y"])], shape)
    check(made, lambda x: x.mean((2, 3), keepdims=True, dtype=np.float64), shape)


def test_averages_over_rows() -> None:
    shape = (1, 60, 80, 288)
    made = model([helper.make_node("ReduceMean", ["x"], ["y"], axes=[1, 2])], shape)
    check(made, lambda x: x.mean((1, 2), keepdims=True, dtype=np.float64), shape)


@pytest.mark.parametrize("columns", [1000, 520])
def test_products_of_one_row(columns: int) -> None:
    weight = RANDOM.standard_normal((2048, columns), np.float32)
    made = model([helper.make_node("MatMul", ["x", "w"], ["y"])], (1, 2048), w=weight)
    check(made, lambda x: x.astype(np.float64) @ weight, (1, 2048))
