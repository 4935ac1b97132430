"""Limits on the size of models: larger ones are refused before any work is done."""

import onnx
import pytest
from onnx import TensorProto, helper
from stepwell.frontend.errors import ModelError
from stepwell.frontend.onnx.reading.limits import MAX_COPIES, MAX_GRAPHS, MAX_PORTS, check_expansion

IMPORTS = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]


def _value(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])


def _model(nodes, inputs=("x",), outputs=("y",), functions=()):
    graph = helper.make_graph(nodes, "g", list(map(_value, inputs)), list(map(_value, outputs)))
    return helper.make_model(graph, functions=functions, opset_imports=IMPORTS, ir_version=9)


def _blocks(calls, length):
    """Calls one function of `length` nodes `calls` times, as exporters write the layers of a transformer."""
    body = [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(length)]
    block = helper.make_function("d", "Block", ["v0"], [f"v{length}"], body, IMPORTS)
    nodes = [helper.make_node("Block", [f"a{i}"], [f"a{i + 1}"], domain="d") for i in range(calls)]
    return _model(nodes, ["a0"], [f"a{calls}"], [block])


def test_functions_may_expand_to_the_nodes_of_large_models():
    check_expansion(_blocks(100, MAX_COPIES // 100), "model")


def test_negative_functions_expand_to_too_many_nodes():
    with pytest.raises(ModelError, match=f"model: has functions that expand to more than {MAX_COPIES} nodes"):
        check_expansion(_blocks(101, MAX_COPIES // 100), "model")


@pytest.mark.sweep
def test_nodes_of_the_graph_are_counted_separately():
    nodes = [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(2 * MAX_COPIES)]
    check_expansion(_model(nodes, ["v0"], [f"v{2 * MAX_COPIES}"]), "model")


def test_negative_nested_functions_expand_to_too_many_nodes():
    """Eighteen functions of two nodes each."""
    functions = []
    for level in range(18):
        name = "Relu" if level == 17 else f"F{level + 1}"
        domain = "" if level == 17 else "d"
        calls = [helper.make_node(name, [a], [b], domain=domain) for a, b in ("am", "mb")]
        functions.append(helper.make_function("d", f"F{level}", ["a"], ["b"], calls, IMPORTS))
    model = _model([helper.make_node("F0", ["x"], ["y"], domain="d")], functions=functions)
    with pytest.raises(ModelError, match=f"expand to more than {MAX_COPIES} nodes"):
        check_expansion(model, "model")


def _branches(count):
    def branch(op):
        return helper.make_graph([helper.make_node(op, ["x"], ["b"])], op, [], [_value("b")])

    nodes = [
        helper.make_node("If", ["c"], [f"y{i}"], then_branch=branch("Relu"), else_branch=branch("Neg"))
        for i in range(count)
    ]
    return _model(nodes, ["x"], ["y0"])


def test_graphs_within_nodes():
    check_expansion(_branches(MAX_GRAPHS // 2), "model")
    with pytest.raises(ModelError, match=f"has more than {MAX_GRAPHS} graphs within its nodes"):
        check_expansion(_branches(MAX_GRAPHS // 2 + 1), "model")


def test_ports():
    relu = [helper.make_node("Relu", ["x0"], ["y"])]
    model = _model(relu, [f"x{i}" for i in range(MAX_PORTS - 1)])
    check_expansion(model, "model")
    model.graph.output.append(_value("y"))
    with pytest.raises(ModelError, match=f"has {MAX_PORTS + 1} inputs and outputs; at most {MAX_PORTS} are supported"):
        check_expansion(model, "model")
    # In old files, every weight is an input too.
    model.graph.initializer.append(onnx.TensorProto(name="x1"))
    check_expansion(model, "model")
