"""Obstacles to native code are found in one pass, node by node, before anything is compiled."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper
from stepwell.frontend.errors import UnsupportedError
from stepwell.frontend.onnx.nodes import registry
from stepwell.tools import compile as tool

DOMAIN = "test.checks"
value, node = helper.make_tensor_value_info, helper.make_node


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    known: Sequence[onnx.ValueInfoProto] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "checked", inputs, outputs, value_info=known)
    imported = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 2)]
    return helper.make_model(graph, opset_imports=imported, ir_version=9)


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator whose handler refuses every node."""

    def picky(node, input):
        raise UnsupportedError("attribute 'mood' is not supported")

    monkeypatch.setitem(registry._HANDLERS, (DOMAIN, "Picky"), {1: picky})


@pytest.fixture
def mixed(refusing: None) -> onnx.ModelProto:
    """A model with nodes of every kind; those with a capital in their name prevent native code."""
    nodes = [
        node("Thing", ["x"], ["a"], "Unknown", domain=DOMAIN),
        node("Relu", ["a"], ["b"], "relu"),
        node("Picky", ["b"], ["c"], "Refused", domain=DOMAIN),
        node("Exp", ["c"], ["d"], "behind"),
        node("Concat", ["s", "s"], ["t"], "Strings", axis=0),
        node("Add", ["x", "y"], ["e"], "Wrong"),
        node("If", ["q"], ["f"], "Holds", then_branch=branch("Picky"), else_branch=branch("Relu")),
        node("Abs", ["x"], ["g"], "abs"),
    ]
    inputs = [value("x", TensorProto.FLOAT, [2, "n"]), value("y", TensorProto.FLOAT, [5, 3, 1])]
    inputs += [value("s", TensorProto.STRING, [2]), value("q", TensorProto.BOOL, [])]
    outputs = [value(name, TensorProto.FLOAT, None) for name in "bdefg"] + [value("t", TensorProto.STRING, [4])]
    return model_of(nodes, inputs, outputs, [value("a", TensorProto.FLOAT, [2, "n"])])


def branch(op_type: str) -> onnx.GraphProto:
    inner = node(op_type, ["x"], ["z"], "inside", domain=DOMAIN if op_type == "Picky" else "")
    return helper.make_graph([inner], op_type, [], [value("z", TensorProto.FLOAT, [2, "n"])])


def test_all_is_found_in_one_pass(mixed):
    report = stepwell.check(mixed, {"x": (2, 3)})
    found = {finding.node: finding for finding in report.findings}
    assert list(found) == ["Unknown", "Refused", "Strings", "Wrong", "Holds"]
    assert report.unseen == ("behind",)
    assert report.nodes == 8 and not report.is_native
    assert [finding.kind for finding in found.values()] == ["operator", "attribute", "type", "error", "attribute"]
    assert found["Unknown"].operator == "test.checks.Thing of opset 2"
    assert found["Unknown"].dtypes == ("float32",) and found["Unknown"].shapes == ((2, 3),)
    assert "no implementation for the host either" in found["Unknown"].suggestion
    assert found["Refused"].reason == "attribute 'mood' is not supported"
    assert found["Strings"].reason == "'s' is of the type string"
    assert found["Strings"].suggestion == "it runs on the host"
    assert "correct the model" in found["Wrong"].suggestion
    assert found["Holds"].reason == "it holds Picky 'inside', which attribute 'mood' is not supported"
    assert len(str(report).splitlines()) == 6


def test_a_model_with_native_code_for_all(tmp_path):
    path = tmp_path / "fine.onnx"
    nodes = [node("Shape", ["x"], ["n"]), node("Expand", ["x", "n"], ["y"]), node("Reshape", ["y", "r"], ["z"])]
    inputs = [value("x", TensorProto.FLOAT, ["rows", 4]), value("r", TensorProto.INT64, [2])]
    onnx.save(model_of(nodes, inputs, [value("z", TensorProto.FLOAT, None)]), path)
    for shapes in (None, {"x": (3, 4)}):  # sizes that are only needed for the compile are not an obstacle
        report = stepwell.check(path, shapes)
        assert report.is_native and report.findings == ()
        assert str(report) == "fine.onnx: there is native code for all 3 nodes"
    run = stepwell.compile(path, threads=1, options=stepwell.Options(cache=False))
    assert run(np.ones((3, 4), np.float32), np.array([2, 6])).shape == (2, 6)
    assert run.fallbacks == ()


def test_findings_are_the_nodes_that_run_on_the_host():
    nodes = [
        node("Neg", ["x"], ["a"], "neg"),
        node("StringSplit", ["s"], ["t", "count"], "Split", delimiter=" "),
        node("Cast", ["count"], ["c"], "cast", to=TensorProto.FLOAT),
        node("Mul", ["a", "c"], ["y"], "mul"),
    ]
    inputs = [value("x", TensorProto.FLOAT, [2]), value("s", TensorProto.STRING, [2])]
    model = model_of(nodes, inputs, [value("y", TensorProto.FLOAT, [2])])
    model.opset_import[0].version = 20
    report = stepwell.check(model)
    assert [finding.node for finding in report.findings] == ["Split"]
    run = stepwell.compile(model, threads=1, options=stepwell.Options(cache=False, fallback="quiet"))
    got = run(np.array([1, 2], np.float32), np.array(["one two", "three"], object))
    np.testing.assert_array_equal(got, [-2, -2])
    assert [finding.node for finding in run.fallbacks] == ["Split"]


def test_the_command_prints_a_table_or_json(mixed, tmp_path, capsys):
    path = str(tmp_path / "mixed.onnx")
    Path(path).write_bytes(mixed.SerializeToString())
    assert tool.main([path, "--check", "--shape", "x=2x3"]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("mixed.onnx: 5 of 8 nodes have no native code; 1 more could not be checked (shapes")
    assert "test.checks.Thing of opset 2" in printed and "not checked: behind" in printed
    assert tool.main([path, "--check", "--json"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert record["native"] is False and record["nodes"] == 8
    assert [finding["node"] for finding in record["findings"]] == ["Unknown", "Refused", "Strings", "Wrong", "Holds"]
    assert tool.main([path, "--check", "--shape", "nothing=2x3"]) == 2  # wrong usage, as with any tool
    assert "--shape nothing: the model has no such input" in capsys.readouterr().err
    assert tool.main([path, "--json"]) == 2
    assert "has no fixed shape" in capsys.readouterr().err  # wrong usage gives no record, as with any wrong option


def test_the_exit_code_says_yes(tmp_path, capsys):
    ports = [value(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    path = tmp_path / "relu.onnx"
    onnx.save(model_of([node("Relu", ["x"], ["y"])], ports[:1], ports[1:]), path)
    assert tool.main([str(path), "--check"]) == 0
    assert "native code for all 1 node" in capsys.readouterr().out


def test_negative_models_that_are_compiled_as_a_whole():
    with pytest.raises(stepwell.SourceError, match="a model of the format mlir has native code, or does not compile"):
        stepwell.check(b"module {}")
    with pytest.raises(stepwell.ModelError, match="not an ONNX model"):
        stepwell.check(b"nothing of the kind")


def test_report_of_a_model_with_strings_among_its_weights():
    names = helper.make_tensor("names", TensorProto.STRING, [2], ["a", "b"])
    graph = helper.make_graph(
        [helper.make_node("Gather", ["names", "x"], ["y"], name="gather")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT64, [3])],
        [helper.make_tensor_value_info("y", TensorProto.STRING, [3])],
        [names],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert [finding.node for finding in stepwell.check(model).findings] == ["gather"]


def test_advice_for_a_model_that_onnx_runtime_made_for_one_processor():
    reorder = node("ReorderInput", ["x"], ["y"], name="reorder", domain="com.microsoft.nchwc")
    ports = [value(name, TensorProto.FLOAT, [1, 16, 4, 4]) for name in "xy"]
    graph = helper.make_graph([reorder], "g", ports[:1], ports[1:])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft.nchwc", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    (finding,) = stepwell.check(model).findings
    assert "ORT_ENABLE_EXTENDED" in finding.suggestion
    with pytest.raises(UnsupportedError, match="ORT_ENABLE_EXTENDED"):
        stepwell.compile(model, options=stepwell.Options(cache=False))
