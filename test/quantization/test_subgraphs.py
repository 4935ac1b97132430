"""Products of branches and loops: observed, quantised by each method, and computed as measured."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper
from stepwell.quantization.float_model import FloatModel
from stepwell.quantization.observation import observe
from stepwell.quantization.subgraphs import nodes_in

from .graphs import Samples

_RANDOM = np.random.default_rng(0)
_WEIGHT = numpy_helper.from_array((_RANDOM.standard_normal((64, 64)) / 8).astype(np.float32), "w")


def _graph(nodes: list, name: str, inputs: list, outputs: list, constants: list) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, inputs, outputs, constants)


def _value(name: str, shape: list | None = None, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def branches() -> tuple[onnx.ModelProto, Samples]:
    """Branches whose values have the same names; the weight of one is a constant node, that of the other is outside."""
    own = numpy_helper.from_array((_RANDOM.standard_normal((64, 64)) / 8).astype(np.float32))
    then = [
        helper.make_node("Constant", [], ["own"], value=own),
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("MatMul", ["a", "own"], ["b"], "product"),
    ]
    other = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("MatMul", ["a", "w"], ["b"], "product")]
    graphs = {
        "then_branch": _graph(then, "then", [], [_value("b")], []),
        "else_branch": _graph(other, "else", [], [_value("b")], []),
    }
    nodes = [helper.make_node("If", ["c"], ["s"], "choice", **graphs), helper.make_node("MatMul", ["s", "w"], ["y"])]
    inputs = [_value("x", ["n", 64]), _value("c", [], TensorProto.BOOL)]
    graph = _graph(nodes, "net", inputs, [_value("y", ["n", 64])], [_WEIGHT])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    random = np.random.default_rng(1)
    data = [random.standard_normal((4, 64)).astype(np.float32) for _ in range(4)]
    return model, [{"x": item, "c": np.array(index % 2 == 0)} for index, item in enumerate(data)]


def loop() -> tuple[onnx.ModelProto, Samples]:
    """A loop that multiplies its state three times."""
    nodes = [
        helper.make_node("MatMul", ["state", "w"], ["product"], "step"),
        helper.make_node("Tanh", ["product"], ["next"]),
        helper.make_node("Identity", ["go"], ["still"]),
    ]
    inputs = [_value("index", [], TensorProto.INT64), _value("go", [], TensorProto.BOOL), _value("state")]
    body = _graph(nodes, "body", inputs, [_value("still", [], TensorProto.BOOL), _value("next")], [])
    count = numpy_helper.from_array(np.array(3), "count")
    node = helper.make_node("Loop", ["count", "", "x"], ["y"], "loop", body=body)
    graph = _graph([node], "net", [_value("x", ["n", 64])], [_value("y", ["n", 64])], [_WEIGHT, count])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    random = np.random.default_rng(1)
    return model, [{"x": random.standard_normal((4, 64)).astype(np.float32)} for _ in range(4)]


def scan() -> tuple[onnx.ModelProto, Samples]:
    """A scan over three parts of the input that multiplies its state with each of them added."""
    nodes = [
        helper.make_node("Add", ["state", "part"], ["sum"]),
        helper.make_node("MatMul", ["sum", "w"], ["product"], "step"),
        helper.make_node("Tanh", ["product"], ["next"]),
        helper.make_node("Identity", ["next"], ["kept"]),
    ]
    shape = [4, 64]
    values = {name: _value(name, shape) for name in ("state", "part", "next", "kept")}
    body = _graph(nodes, "body", [values["state"], values["part"]], [values["next"], values["kept"]], [])
    start = numpy_helper.from_array(np.zeros(shape, np.float32), "start")
    node = helper.make_node("Scan", ["start", "x"], ["last", "y"], "scan", body=body, num_scan_inputs=1)
    graph = _graph([node], "net", [_value("x", [3, *shape])], [_value("y", [3, *shape])], [_WEIGHT, start])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    random = np.random.default_rng(1)
    return model, [{"x": random.standard_normal((3, *shape)).astype(np.float32)} for _ in range(4)]


def test_names_and_products_of_branches() -> None:
    read = FloatModel.read(branches()[0])
    assert len({item.name for item in read.products}) == len(read.products) == 3
    assert len({item.data for item in read.products}) == 3


def test_values_of_branches_and_iterations_are_observed() -> None:
    model, samples = branches()
    read = FloatModel.read(model)
    seen = observe(read, samples, {item.data: -1 for item in read.products}, False, True)
    by_low = sorted(seen.values(), key=lambda item: item.low)
    assert {item.rows for item in seen.values()} == {8, 16} and by_low[-1].low == 0.0
    model, samples = loop()
    read = FloatModel.read(model)
    (state,) = observe(read, samples, {"state": -1}, False, False).values()
    assert state.rows == 4 * 3 * 4 and state.high == max(float(item["x"].max()) for item in samples)
    model, samples = scan()
    (item,) = FloatModel.read(model).products
    (data,) = observe(FloatModel.read(model), samples, {item.data: -1}, False, False).values()
    assert data.rows == 4 * 3 * 4 and data.high >= max(float(item["x"][0].max()) for item in samples)


@pytest.mark.few(6)
@pytest.mark.parametrize("make", [branches, loop, scan])
@pytest.mark.parametrize(
    ("options", "operators"),
    [
        ({}, {"QuantizeLinear", "DequantizeLinear"}),
        ({"method": "dynamic"}, {"MatMulInteger"}),
        ({"method": "weights"}, {"MatMulNBits"}),
    ],
)
def test_products_inside_are_quantised(make, options, operators) -> None:
    model, samples = make()
    made = stepwell.quantize(model, samples, **options)
    onnx.checker.check_model(made.model)
    kinds = [node.op_type for node in nodes_in(made.model.graph)]
    assert operators <= set(kinds) and made.report.bytes < 0.35 * made.report.float_bytes
    want = [stepwell.compile(model)(**sample) for sample in samples]
    got = [made.compile()(**sample) for sample in samples]
    errors = [((a - b) ** 2).sum() / (b**2).sum() for a, b in zip(got, want, strict=True)]
    assert made.report.errors.relative == pytest.approx(np.sqrt(np.mean(errors)), rel=0.3, abs=1e-3)
    assert made.report.errors.relative < 0.2


def test_a_branch_that_no_sample_takes_gets_its_scale_from_each_call() -> None:
    model, samples = branches()
    made = stepwell.quantize(model, [item for item in samples if item["c"]])
    kinds = [node.op_type for node in nodes_in(made.model.graph)]
    assert kinds.count("DynamicQuantizeLinear") == 1
    (sample,) = [item for item in samples if not item["c"]][:1]
    want, got = stepwell.compile(model)(**sample), made.compile()(**sample)
    assert ((got - want) ** 2).sum() < 0.05**2 * (want**2).sum()
