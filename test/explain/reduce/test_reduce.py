"""Planted failures are reduced to the nodes they need, and not to another failure."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from mlir import ir
from onnx import TensorProto, helper, numpy_helper
from stepwell.dialects.stepwell.elementwise import ReluOp, TanhOp
from stepwell.explain.reduce.case import Case
from stepwell.explain.reduce.child import Limits
from stepwell.explain.reduce.failure import normalised
from stepwell.explain.reduce.observe import CommandTest, CompileTest, PassesTest
from stepwell.explain.reduce.run import ReductionRequest, once, reduce
from stepwell.explain.reduce.wrong_numbers import NumbersTest
from stepwell.frontend.onnx import importer
from stepwell.frontend.onnx.reading.model import Model
from stepwell.lowering.linalg_to_vector.vectorize import VectorizePass
from stepwell.passes.graph.patterns import algebra
from stepwell.passes.infra.base import PassError
from stepwell.passes.ir.rewriting import Pattern, walk
from stepwell.tools import reduce as tool

LIMITS = Limits(60, 8192)


def _model(count: int = 3) -> onnx.ModelProto:
    """Blocks of a convolution, a bias and an activation; the middle one differs, and a pool is at the end."""
    random = np.random.default_rng(0)
    nodes, weights, value = [], [], "x"
    for block in range(count):
        weights.append(numpy_helper.from_array(random.random((4, 4, 3, 3), dtype=np.float32) - 0.5, f"w{block}"))
        kind = "Tanh" if block == count // 2 else "Relu"
        nodes.append(helper.make_node("Conv", [value, f"w{block}"], [f"c{block}"], pads=[1] * 4, name=f"conv{block}"))
        nodes.append(helper.make_node(kind, [f"c{block}"], [f"r{block}"], name=f"act{block}"))
        value = f"r{block}"
    nodes.append(helper.make_node("GlobalAveragePool", [value], ["y"], name="pool"))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 1, 1])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def _case(model: onnx.ModelProto) -> Case:
    return Case("onnx", model.SerializeToString())


def _operators(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def _plant(monkeypatch: pytest.MonkeyPatch, fault) -> None:
    """Calls `fault` with the operators of every model that is imported."""
    original = importer.import_model

    def planted(model: Model, *arguments, **named):
        fault([node.op_type for node in model.proto.graph.node])
        return original(model, *arguments, **named)

    monkeypatch.setattr(importer, "import_model", planted)


@pytest.mark.sweep
def test_failure_that_needs_two_nodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fault(operators: list[str]) -> None:
        if "Tanh" in operators and "GlobalAveragePool" in operators:
            raise PassError(f"cannot tile {len(operators)} ops of tensor<{len(operators)}x3xf32>")
        if "GlobalAveragePool" in operators and len(operators) < 4:
            raise PassError("another failure, of all that is smaller")

    _plant(monkeypatch, fault)
    result = reduce(ReductionRequest(CompileTest(), limits=LIMITS, parent=tmp_path), _case(_model()))
    assert result is not None
    assert result.status == "reduced"
    assert sorted(_operators(result.path)) == ["GlobalAveragePool", "Tanh"]
    assert "cannot tile # ops" in result.failure.pattern
    again = reduce(
        ReductionRequest(CompileTest(), limits=LIMITS, parent=tmp_path), Case("onnx", result.path.read_bytes())
    )
    assert again is not None
    assert (again.status, again.folder.name) == ("minimal", "reduce-2")


@pytest.mark.sweep
def test_crash_and_checkpoints(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fault(operators: list[str]) -> None:
        if "Tanh" in operators:
            os.write(2, f"x.cpp:{len(operators)}: f(): Assertion `rank == {len(operators)}' failed.\n".encode())
            os.abort()

    _plant(monkeypatch, fault)
    request = ReductionRequest(CompileTest(), limits=LIMITS, parent=tmp_path, jobs=2)
    result = reduce(request, _case(_model()))
    assert result is not None
    assert _operators(result.path) == ["Tanh"]
    assert result.failure.kind == "crash"
    log = [json.loads(line) for line in (result.folder / "log.jsonl").read_text().splitlines()]
    steps = [entry for entry in log if "step" in entry]
    assert len(steps) == result.accepted + 1
    for step in steps:
        case = Case("onnx", (result.folder / step["file"]).read_bytes())
        assert [item.pattern for item in once(request, case)[1]] == [result.failure.pattern]


def test_a_model_that_does_not_fail(tmp_path: Path) -> None:
    assert reduce(ReductionRequest(CompileTest(), limits=LIMITS, parent=tmp_path), _case(_model(1))) is None
    assert not list(tmp_path.iterdir())


class _TanhIsNothing(Pattern[TanhOp]):
    """tanh(x) --> x, which is wrong"""

    root = TanhOp

    def rewrite(self, op: TanhOp) -> Any:
        return op.operation.operands[0]


class _ReluIsNothing(Pattern[ReluOp]):
    """relu(x) --> x, which is wrong"""

    root = ReluOp

    def rewrite(self, op: ReluOp) -> Any:
        return op.operation.operands[0]


@pytest.mark.sweep
def test_wrong_numbers_of_one_fault_of_two(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(algebra, "PATTERNS", (*algebra.PATTERNS, _TanhIsNothing(), _ReluIsNothing()))
    test = NumbersTest(CompileTest(), reference="numpy")
    result = reduce(ReductionRequest(test, limits=LIMITS, parent=tmp_path), _case(_model(2)))
    assert result is not None
    assert result.failure.kind == "numbers"
    blamed = {"_TanhIsNothing": "Tanh", "_ReluIsNothing": "Relu"}[result.failure.where.rpartition(" ")[2]]
    assert {"Tanh", "Relu"} & {*_operators(result.path)} == {blamed}
    assert len(_operators(result.path)) <= 2


def test_wrong_numbers_of_a_program_for_a_range(monkeypatch: pytest.MonkeyPatch) -> None:
    right = VectorizePass.run

    def run(self: VectorizePass, op: Any, state: Any) -> None:
        for inner in [item for item in walk(op) if item.name == "math.exp"]:
            with inner.location, ir.InsertionPoint(inner):
                wrong = ir.Operation.create("math.tanh", [inner.results[0].type], [inner.operands[0]])
            inner.results[0].replace_all_uses_with(wrong.results[0])
            inner.erase()
        right(self, op, state)

    monkeypatch.setattr(VectorizePass, "run", run)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 8]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"], "exp")], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    case = Case("onnx", model.SerializeToString(), "", {"x": (5, 8)})
    test = NumbersTest(CompileTest(dims={"n": (1, 12)}), reference="numpy")
    (found,) = test.observe(case, lambda text: None)
    assert (found.kind, found.where) == ("numbers", f"pass '{VectorizePass.name}'")
    assert "--dims=n=1:12" in test.command("best.onnx", case)


def test_a_reference_that_cannot_run_the_model_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 8]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Gelu", ["x"], ["y"], "gelu", domain="com.microsoft")], "g", [x], [y])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "gelu.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    assert tool.main([str(path), "--wrong-numbers", "--reference=numpy", "--once"]) == 2
    assert "numpy cannot run the model" in capsys.readouterr().err


@pytest.mark.sweep
def test_mlir(tmp_path: Path) -> None:
    text = """
        func.func @other() { return }
        func.func @f(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>) -> tensor<4x16xf32> {
          %c = arith.constant 0.0 : f32
          %e = tensor.empty() : tensor<4x16xf32>
          %z = linalg.fill ins(%c : f32) outs(%e : tensor<4x16xf32>) -> tensor<4x16xf32>
          %m = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x16xf32>)
                             outs(%z : tensor<4x16xf32>) -> tensor<4x16xf32>
          %q = "stepwell.relu"(%m) : (tensor<4x16xf32>) -> tensor<4x16xf32>
          return %q : tensor<4x16xf32>
        }"""
    pipeline = "builtin.module(cse,one-shot-bufferize{bufferize-function-boundaries=1},canonicalize)"
    case = Case("mlir", text.encode(), pipeline)
    result = reduce(ReductionRequest(PassesTest(), limits=LIMITS, parent=tmp_path), case)
    assert result is not None
    assert (result.failure.kind, result.failure.where) == ("pass", "one-shot-bufferize")
    left = result.path.read_text()
    assert "stepwell.relu" in left
    assert "@other" not in left
    assert "cse" not in result.command
    assert "linalg" not in left
    assert "broken" not in (result.folder / "log.jsonl").read_text()


STRUCTURED = """
    func.func @f(%c: i1, %x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = scf.if %c -> (tensor<4xf32>) {
        %1 = math.cos %x : tensor<4xf32>
        scf.yield %1 : tensor<4xf32>
      } else {
        %2 = "stepwell.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
        scf.yield %2 : tensor<4xf32>
      }
      return %0 : tensor<4xf32>
    }"""
BRANCHES = """
    func.func @f(%c: i1, %x: tensor<4xf32>) -> tensor<4xf32> {
      cf.cond_br %c, ^bb1(%x : tensor<4xf32>), ^bb2(%x : tensor<4xf32>)
    ^bb1(%a: tensor<4xf32>):
      %1 = math.cos %a : tensor<4xf32>
      cf.br ^bb3(%1 : tensor<4xf32>)
    ^bb2(%b: tensor<4xf32>):
      %2 = "stepwell.relu"(%b) : (tensor<4xf32>) -> tensor<4xf32>
      cf.br ^bb3(%2 : tensor<4xf32>)
    ^bb3(%r: tensor<4xf32>):
      return %r : tensor<4xf32>
    }"""


@pytest.mark.sweep
@pytest.mark.parametrize("text", [STRUCTURED, BRANCHES], ids=["regions", "blocks"])
def test_no_branch_is_left(tmp_path: Path, text: str) -> None:
    pipeline = "builtin.module(one-shot-bufferize{bufferize-function-boundaries=1})"
    result = reduce(
        ReductionRequest(PassesTest(), limits=LIMITS, parent=tmp_path), Case("mlir", text.encode(), pipeline)
    )
    assert result is not None
    left = result.path.read_text()
    assert "stepwell.relu" in left
    assert not any(word in left for word in ("scf", "cf.", "^", "else", "math"))


@pytest.mark.sweep
def test_command_and_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model.onnx"
    onnx.save(_model(), model)
    test = ["--test", "grep --quiet Tanh {}", "--output", str(tmp_path), "--json"]
    assert tool.main([str(model), *test, "--seconds", "0"]) == 0
    stopped = json.loads(capsys.readouterr().out)
    assert stopped["status"] == "out of time"
    assert tool.main(["--resume", stopped["folder"], "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["folder"] == stopped["folder"]
    assert record["after"]["nodes"] == 1
    assert tool.main([str(model), "--test", "false", "--output", str(tmp_path)]) == 1
    (tmp_path / "model.txt").write_text("no model")
    assert tool.main([str(tmp_path / "model.txt")]) == 2


@pytest.mark.sweep
def test_control_flow_is_flattened(tmp_path: Path) -> None:
    value, flag = (lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4])), TensorProto.BOOL
    condition, rounds = (helper.make_tensor_value_info(*port, []) for port in (("c", flag), ("n", TensorProto.INT64)))
    then = helper.make_graph([helper.make_node("Erf", ["a"], ["t"])], "then", [], [value("t")])
    other = helper.make_graph([helper.make_node("Neg", ["a"], ["e"])], "else", [], [value("e")])
    again = helper.make_node("Identity", ["ci"], ["co"])
    ports = [
        helper.make_tensor_value_info(*port, []) for port in (("i", TensorProto.INT64), ("ci", flag), ("co", flag))
    ]
    inner = [again, helper.make_node("Cos", ["v"], ["vo"])]
    body = helper.make_graph(inner, "body", [*ports[:2], value("v")], [ports[2], value("vo")])
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("If", ["c"], ["f"], then_branch=then, else_branch=other),
        helper.make_node("Loop", ["n", "c", "f"], ["y"], body=body),
    ]
    graph = helper.make_graph(nodes, "g", [value("x"), condition, rounds], [value("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    result = reduce(ReductionRequest(CommandTest("grep --quiet Cos"), limits=LIMITS, parent=tmp_path), _case(model))
    assert result is not None
    assert _operators(result.path) == ["Cos"]


@pytest.mark.sweep
def test_text_that_does_not_parse(tmp_path: Path) -> None:
    lines = [f"func.func @f{index}() {{ return }}\n" for index in range(8)]
    text = "".join([*lines[:5], "func.func @wrong() { arith.unknown }\n", *lines[5:]])
    case = Case("mlir", text.encode(), "builtin.module(cse)")
    result = reduce(ReductionRequest(PassesTest(), limits=LIMITS, parent=tmp_path), case)
    assert result is not None
    assert result.path.read_text() == "func.func @wrong() { arith.unknown }\n"


def test_normalised() -> None:
    first = normalised("'stepwell.add' op takes tensor<3x?xf32> at %12 of 'conv_7' (rank 2)", ["conv_7"])
    second = normalised("'stepwell.add' op takes tensor<8x16x9xf32> at %a of 'n0' (rank 3)", ["n0"])
    assert first == second == "'stepwell.add' op takes tensor<#xf32> at % of '*' (rank #)"
