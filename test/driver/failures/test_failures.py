"""Failures planted in a compile: the text of the error, and a reproducer that fails in the same way."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
import stepwell
from mlir import ir
from onnx import TensorProto, helper
from stepwell.driver import route
from stepwell.driver.failures.reproducers import explained
from stepwell.frontend.errors import NeedsContents
from stepwell.frontend.onnx.fallback.partition import nodes_that_failed
from stepwell.frontend.onnx.reading.model import read_model
from stepwell.passes.infra.base import Pass, PassError, register
from stepwell.passes.infra.failure import ModelOp
from stepwell.passes.infra.pipeline import Pipeline
from stepwell.passes.infra.state import CompileState
from stepwell.passes.ir.functions import kernels_in
from stepwell.passes.ir.rewriting import walk

MODEL = b"""func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = "stepwell.exp"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("first")
  %1 = "stepwell.softmax"(%0) {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("second")
  return %1 : tensor<4x8xf32>
}"""


@register
@dataclass(frozen=True)
class PlantedPass(Pass):
    """Fail in the requested way."""

    name = "test-planted-failure"
    way: str = "error"
    kind: str = ""

    def run(self, op: ir.Operation, state: CompileState) -> None:
        for kernel in kernels_in(op):
            if self.kind not in str(kernel.attributes["stepwell.kernel"]):
                continue
            inner = next(iter(walk(kernel)))
            if self.way == "error":
                raise PassError("planted here", inner.location)
            if self.way == "bug":
                raise KeyError("planted")
            if self.way == "abort":
                os.abort()
            kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([], []))


def _plant(monkeypatch, way: str = "error") -> None:
    """Replaces the passes of a phase by the planted one."""
    planted = Pipeline((PlantedPass(way),))
    changed = [
        route.Phase(item.name, item.summary, lambda target: planted, item.check) if item.name == "tiled" else item
        for item in route.phases_of("cpu")
    ]
    monkeypatch.setattr(route, "phases_of", lambda target: tuple(changed))


def _plant_for_convolutions(monkeypatch, way: str) -> None:
    """Inserts the planted pass before those of a phase; it fails at convolutions alone."""
    changed = []
    for item in route.phases_of("cpu"):
        made = item.pipeline
        if item.name == "tiled":
            made = lambda target, made=made: Pipeline((PlantedPass(way, "convolution"), *made(target).elements))  # noqa: E731
        changed.append(route.Phase(item.name, item.summary, made, item.check))
    monkeypatch.setattr(route, "phases_of", lambda target: tuple(changed))


def _exponential(size: int | str) -> bytes:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"], name="exp")], "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("way", "reason"), [("error", "planted here"), ("bug", "KeyError"), ("invalid", "it left invalid IR")]
)
def test_a_failure_explains_itself(way, reason, monkeypatch, tmp_path):
    monkeypatch.setenv("STEPWELL_REPRODUCERS", str(tmp_path))
    _plant(monkeypatch, way)
    with pytest.raises(stepwell.CompileError) as caught:
        stepwell.compile(MODEL, options=stepwell.Options(cache=False))
    error = caught.value
    assert (error.phase, error.pass_name) == ("tiled", PlantedPass.name)
    assert error.node in ("first", "second")
    assert error.op_type in ("stepwell.exp", "stepwell.softmax")
    assert error.failure is not None
    assert error.failure.ops[0].results == ("tensor<4x8xf32>",)
    assert reason in error.failure.reason
    assert error.reproducer is not None
    report = json.loads((error.reproducer / "report.json").read_text())
    assert (report["schema"], report["phase"], report["pass"]) == (1, "tiled", PlantedPass.name)
    command = shlex.split(error.failure.command)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"pass '{PlantedPass.name}' failed: {reason}" in done.stderr


def test_plain_mlir_opt_shows_what_an_upstream_pass_fails_on(monkeypatch, tmp_path):
    tool = shutil.which("mlir-opt") or shutil.which("iree-opt")
    if tool is None:
        pytest.skip("there is no mlir-opt, nor another system's, on the PATH")
    monkeypatch.setenv("STEPWELL_REPRODUCERS", str(tmp_path))
    monkeypatch.setattr(route, "form_kernels_pipeline", lambda target: Pipeline(("one-shot-bufferize",)))
    with pytest.raises(stepwell.CompileError, match="was not bufferized") as caught:
        stepwell.compile(MODEL, options=stepwell.Options(cache=False))
    assert caught.value.reproducer is not None
    command = [tool, "--run-reproducer", "--allow-unregistered-dialect", str(caught.value.reproducer / "failing.mlir")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "op was not bufferized" in done.stderr


def test_nodes_on_the_host_say_where_the_compiler_failed(monkeypatch, tmp_path):
    monkeypatch.setenv("STEPWELL_REPRODUCERS", str(tmp_path))
    _plant(monkeypatch)
    with pytest.warns(stepwell.FallbackWarning, match=f"phase tiled, pass {PlantedPass.name}; reproducer"):
        executable = stepwell.compile(_exponential(4), options=stepwell.Options(cache=False))
    (found,) = executable.fallbacks
    assert (found.kind, found.phase, found.pass_name) == ("error", "tiled", PlantedPass.name)
    assert (tmp_path / found.reproducer / "failing.mlir").exists()
    assert found.record()["pass_name"] == PlantedPass.name


def test_a_request_for_contents_is_not_retried():
    runs = []

    def again() -> None:
        runs.append(1)

    with pytest.raises(NeedsContents) as caught, explained(again, "cpu"):
        raise NeedsContents("the size depends on an input")
    assert not runs
    assert caught.value.failure is None


def test_a_failure_says_what_the_node_of_an_onnx_model_takes(monkeypatch, tmp_path):
    monkeypatch.setenv("STEPWELL_REPRODUCERS", str(tmp_path))
    _plant(monkeypatch)
    with pytest.raises(stepwell.CompileError) as caught:
        stepwell.compile(_exponential("n"), options=stepwell.Options(cache=False, dims={"n": (1, 8)}, fallback="error"))
    error = caught.value
    assert (error.phase, error.node, error.op_type) == ("tiled", "exp", "Exp")
    assert error.failure is not None
    assert str(error.failure.ops[0]) == 'node \'exp\' (Exp): tensor<?xf32, ["n"]> -> tensor<?xf32, ["n"]>'
    assert error.reproducer is not None


@pytest.mark.few(1)
@pytest.mark.parametrize("is_beside", [False, True])
def test_reproducers_hold_no_large_constants(is_beside, monkeypatch, tmp_path):
    monkeypatch.setenv("STEPWELL_REPRODUCERS", str(tmp_path))
    hexadecimal = np.arange(4096, dtype=np.float32).tobytes().hex()
    value = "dense_resource<w>" if is_beside else f'dense<"0x{hexadecimal}">'
    model = f"""func.func @main(%x: tensor<4096xf32>) -> tensor<4096xf32> {{
      %0 = arith.constant {value} : tensor<4096xf32>
      %1 = "stepwell.add"(%x, %0) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32> loc("first")
      %2 = tosa.erf %1 : (tensor<4096xf32>) -> tensor<4096xf32> loc("second")
      return %2 : tensor<4096xf32>
    }}"""
    if is_beside:
        model += f'{{-# dialect_resources: {{ builtin: {{ w: "0x04000000{hexadecimal}" }} }} #-}}'
    with pytest.raises(stepwell.CompileError, match="stepwell-plan-memory") as caught:
        stepwell.compile(model.encode(), options=stepwell.Options(cache=False))
    error = caught.value
    assert error.reproducer is not None and error.failure is not None
    text = (error.reproducer / "failing.mlir").read_text()
    assert "dense<0.0" in text and len(text) < 4096
    done = subprocess.run(shlex.split(error.failure.command), capture_output=True, text=True, check=False)
    assert error.failure.reason in done.stderr


def test_a_crash_of_a_guarded_compile_is_an_error_with_a_reproducer(monkeypatch, tmp_path):
    monkeypatch.setenv("STEPWELL_REPRODUCERS", str(tmp_path))
    _plant(monkeypatch, "abort")
    place = f"in phase 'tiled', pass '{PlantedPass.name}'"
    with pytest.raises(stepwell.CompilerCrash, match=place) as caught:
        stepwell.compile(MODEL, options=stepwell.Options(cache=False, guarded=True))
    error = caught.value
    assert (error.phase, error.pass_name, error.node) == ("tiled", PlantedPass.name, "second")
    assert error.failure is not None and [op.name for op in error.failure.ops] == ["second", "first"]
    assert error.reproducer is not None
    assert json.loads((error.reproducer / "report.json").read_text())["crash"] == "SIGABRT"
    assert PlantedPass.name in (error.reproducer / "failing.mlir").read_text()


def test_a_node_that_crashes_a_guarded_compile_runs_on_the_host(monkeypatch, tmp_path):
    monkeypatch.setenv("STEPWELL_REPRODUCERS", str(tmp_path))
    monkeypatch.setenv("STEPWELL_GUARDED", "1")
    _plant(monkeypatch, "abort")
    with pytest.warns(stepwell.FallbackWarning, match=f"pass {PlantedPass.name}; reproducer"):
        executable = stepwell.compile(_exponential(4), options=stepwell.Options(cache=False))
    assert "crashed (SIGABRT)" in executable.fallbacks[0].reason
    np.testing.assert_allclose(executable(np.zeros(4, np.float32)), np.ones(4))


def test_a_crash_names_the_nodes_of_its_kernel():
    model = onnx.load_from_string(_exponential(4))
    model.graph.node[0].output[0] = "e"
    model.graph.node.append(helper.make_node("Neg", ["e"], ["y"], name="negative"))
    crash = stepwell.CompilerCrash("crashed", "SIGABRT")
    assert nodes_that_failed(read_model(model), [], crash) == {}
    crash.explain(stepwell.Failure("crashed", crash="SIGABRT", ops=(ModelOp("negative"),)))
    assert list(nodes_that_failed(read_model(model), [], crash)) == [1]


@pytest.mark.few(1)
@pytest.mark.parametrize("way", ["error", "bug", "abort"])
def test_the_node_that_does_most_of_a_failing_kernel_runs_on_the_host(way, monkeypatch, tmp_path):
    random = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "conv"),
        helper.make_node("BatchNormalization", ["a", "s", "b", "m", "v"], ["c"], "norm"),
        helper.make_node("Relu", ["c"], ["y"], "relu"),
    ]
    weights = {
        "w": random.standard_normal((8, 4, 3, 3)),
        "s": [1.0] * 8,
        "b": [0.5] * 8,
        "m": [0.0] * 8,
        "v": [1.0] * 8,
    }
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 4, 10, 10]), ("y", [1, 8, 8, 8]))
    ]
    stored = [onnx.numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    x = random.random((1, 4, 10, 10)).astype(np.float32)
    expected = stepwell.compile(model)(x)
    monkeypatch.setenv("STEPWELL_REPRODUCERS", str(tmp_path))
    monkeypatch.setenv("STEPWELL_GUARDED", "1")
    _plant_for_convolutions(monkeypatch, way)
    with pytest.warns(stepwell.FallbackWarning):
        executable = stepwell.compile(model, options=stepwell.Options(cache=False))
    assert [item.node for item in executable.fallbacks] == ["conv"]
    np.testing.assert_allclose(executable(x), expected, atol=1e-5)


@pytest.mark.parametrize("dims", [{}, {"n": (1, 8)}])
def test_a_guarded_compile_gives_the_same_program(dims):
    made = [
        stepwell.compile(_exponential("n"), options=stepwell.Options(cache=False, dims=dims, guarded=guarded))
        for guarded in (True, False)
    ]
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    for executable in made:
        np.testing.assert_allclose(executable(x), np.exp(x), rtol=1e-6)
    assert made[0].programs[0].objects == made[1].programs[0].objects


def test_guarded_compiles_refuse_callbacks():
    with pytest.raises(ValueError, match="guarded"):
        stepwell.compile(MODEL, options=stepwell.Options(guarded=True, reached=print))
