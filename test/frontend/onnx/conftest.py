"""Fixtures of the ONNX importer's tests: models of one node, interpreted and compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from mlir import ir
from onnx import helper, numpy_helper
from stepwell.dialects.interpreter import evaluate
from stepwell.dialects.verifier import verify
from stepwell.frontend.errors import NeedsShapes
from stepwell.frontend.onnx.importer import import_model

Arrays = Mapping[str, np.ndarray]


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Arrays,
    outputs: Sequence[str],
    constants: Arrays,
    opset: int,
    domains: Mapping[str, int] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """Makes a model with inputs of the arrays' ranks and symbolic extents; the outputs' types are left open."""
    graph = helper.make_graph(
        nodes,
        "test",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), [f"{name}_{axis}" for axis in range(array.ndim)]
            )
            for name, array in inputs.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(*item) for item in (domains or {}).items())]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=list(functions))


def run_ort(model: onnx.ModelProto, feeds: Arrays) -> list[np.ndarray]:
    """Returns ONNX Runtime's outputs, without its optimisations except those that make products exact."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    model, feeds = with_exact_products(model, feeds, options)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def with_exact_products(
    model: onnx.ModelProto, feeds: Arrays, options: onnxruntime.SessionOptions
) -> tuple[onnx.ModelProto, Arrays]:
    """Makes ONNX Runtime compute exact sums of products of uint8 and int8.

    On x86 CPUs without VNNI, ONNX Runtime saturates these sums at 16 bits. Its precision mode converts int8 weights to
    uint8 instead, if the model stores them and the extended optimisations are on.

    Returns:
        The model and the feeds; int8 feeds are stored in the model instead.
    """
    stored = {name: array for name, array in feeds.items() if array.dtype == np.int8}
    kinds = {array.data_type for array in model.graph.initializer}
    if not (stored or onnx.TensorProto.INT8 in kinds) or len(stored) == len(feeds):
        return model, feeds
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.add_session_config_entry("session.x64quantprecision", "1")
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    del changed.graph.input[:]
    changed.graph.input.extend(value for value in model.graph.input if value.name not in stored)
    changed.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in stored.items())
    return changed, {name: array for name, array in feeds.items() if name not in stored}


def declare_outputs(model: onnx.ModelProto, arrays: Sequence[np.ndarray]) -> None:
    """Sets the element types of the outputs to those of the results."""
    for output, array in zip(model.graph.output, arrays, strict=True):
        output.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)


def assert_same(actual: Sequence[np.ndarray], expected: Sequence[np.ndarray], rtol: float) -> None:
    """Checks element types, shapes and contents."""
    for got, wanted in zip(actual, expected, strict=True):
        assert got.dtype == wanted.dtype
        assert got.shape == wanted.shape
        if wanted.dtype == np.bool_ or not np.issubdtype(wanted.dtype, np.inexact):
            np.testing.assert_array_equal(got, wanted)
        else:
            np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol)


def check_model(model: onnx.ModelProto, feeds: Arrays, *, dynamic: bool = True, rtol: float = 2e-5) -> None:
    """Compares a model with ONNX Runtime, imported for the inputs' shapes and, if `dynamic`, also without them."""
    expected = run_ort(model, feeds)
    declare_outputs(model, expected)
    shapes = {name: array.shape for name, array in feeds.items()}
    for given in (shapes, None) if dynamic else (shapes,):
        try:
            imported = import_model(model, ir.Context(), given)
        except NeedsShapes:
            assert given is None
            continue
        verify(imported.module)
        assert_same(evaluate(imported.module, "main", list(feeds.values()), imported.parameters), expected, rtol)


def check_node(
    op_type: str,
    opset: int,
    inputs: Sequence[np.ndarray | None],
    *,
    constants: Mapping[int, Any] | None = None,
    outputs: int = 1,
    domain: str = "",
    dynamic: bool = True,
    rtol: float = 2e-5,
    **attributes: Any,
) -> None:
    """Compares one node with ONNX Runtime.

    Args:
        op_type: operator of the node.
        opset: version of the operator.
        inputs: input arrays; None for an absent or constant input.
        constants: inputs that are stored in the model, by position.
        outputs: number of outputs to compare.
        domain: domain of the operator.
        dynamic: whether to import the model for unknown shapes too.
        rtol: maximum error, relative and absolute.
        **attributes: attributes of the node.
    """
    stored = {f"c{index}": np.asarray(value) for index, value in (constants or {}).items()}
    feeds = {f"x{index}": array for index, array in enumerate(inputs) if array is not None}
    count = max([len(inputs), *(index + 1 for index in constants or {})])
    names = [next((name for name in (f"x{i}", f"c{i}") if name in feeds or name in stored), "") for i in range(count)]
    results = [f"y{index}" for index in range(outputs)]
    node = helper.make_node(op_type, names, results, name="tested", domain=domain, **attributes)
    model = make_model([node], feeds, results, stored, opset, {domain: 1} if domain else None)
    check_model(model, feeds, dynamic=dynamic, rtol=rtol)


@pytest.fixture
def check() -> Callable[..., None]:
    """See `check_node`."""
    return check_node


@pytest.fixture
def compare() -> Callable[..., None]:
    """See `check_model`."""
    return check_model


@pytest.fixture
def build() -> Callable[..., onnx.ModelProto]:
    """See `make_model`."""
    return make_model


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same in every run."""
    return np.random.default_rng(0)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache for a test."""
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path / "cache"))
