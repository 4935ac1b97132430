"""The embedding API: what `stepwell.compile` accepts, returns and caches."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import stepwell
from mlir import ir
from onnx import TensorProto, helper, numpy_helper
from stepwell.dialects.registry import load_dialects
from stepwell.driver.sources.source import SourceError

WEIGHT = np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32)
MODULE = """
func.func @main(%x: tensor<?x4xf32> {stepwell.name = "x", stepwell.dims = ["rows", 4]})
    -> (tensor<?x4xf32> {stepwell.name = "y"}) {
  %0 = "stepwell.tanh"(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32> loc("Tanh_0")
  return %0 : tensor<?x4xf32> loc("Tanh_0")
}
"""

RELU_MODULE = b"""func.func @main(%x: tensor<3x8xf32>) -> tensor<3x8xf32> {
  %y = "stepwell.relu"(%x) : (tensor<3x8xf32>) -> tensor<3x8xf32>
  return %y : tensor<3x8xf32>
}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for every test."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(folder))
    return folder


def dense_layer(rows: str | int = "rows") -> onnx.ModelProto:
    """relu(x @ w) with a variable number of rows."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 5])
    graph = helper.make_graph(nodes, "dense", [x], [y], [numpy_helper.from_array(WEIGHT, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])


def expected(x: np.ndarray) -> np.ndarray:
    """Returns the layer's result, computed by numpy."""
    return np.maximum(x @ WEIGHT, 0)


@pytest.mark.parametrize("form", ["path", "str", "bytes", "proto"])
def test_takes_a_model_in_every_form(form: str, tmp_path: Path) -> None:
    path = tmp_path / "dense.onnx"
    onnx.save(dense_layer(), path)
    model = {"path": path, "str": str(path), "bytes": path.read_bytes(), "proto": dense_layer()}[form]
    run = stepwell.compile(model, threads=1)
    x = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    np.testing.assert_allclose(run(x), expected(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run(x=x[:1]), expected(x[:1]), rtol=1e-5, atol=1e-6)


def test_takes_a_module_and_its_text(tmp_path: Path) -> None:
    path = tmp_path / "tanh.mlir"
    path.write_text(MODULE)
    context = ir.Context()
    with context:
        load_dialects(context)
        module = ir.Module.parse(MODULE)
    x = np.linspace(-3, 3, 8, dtype=np.float32).reshape(2, 4)
    for model in (path, MODULE.encode(), module):
        run = stepwell.compile(model, threads=1)
        assert run.inputs[0].shape == ("rows", 4)
        np.testing.assert_allclose(run(x), np.tanh(x), rtol=1e-6)


def test_inputs_and_outputs_are_described() -> None:
    run = stepwell.compile(dense_layer(), threads=1)
    assert [(item.name, item.dtype, item.shape) for item in run.inputs] == [("x", np.float32, ("rows", 8))]
    assert [(item.name, item.dtype, item.shape) for item in run.outputs] == [("y", np.float32, ("rows", 5))]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda run: run(np.zeros((2, 8))), "float32"),
        (lambda run: run(np.zeros((2, 7), np.float32)), "8"),
        (lambda run: run(z=np.zeros((2, 8), np.float32)), "x: float32"),
        (lambda run: run(), "missing"),
    ],
)
def test_a_wrong_call_says_what_was_expected(call, said: str) -> None:
    with pytest.raises(stepwell.InputError, match=said):
        call(stepwell.compile(dense_layer(), threads=1))


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["dense.onnx", "dense.pb", "dense", "relu.mlir"])
def test_a_second_process_finds_everything_in_the_cache(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(RELU_MODULE if path.suffix == ".mlir" else dense_layer().SerializeToString())
    script = (
        "import sys, numpy, stepwell\n"
        f"y = stepwell.compile({str(path)!r}, threads=1)(numpy.ones((3, 8), numpy.float32))\n"
        "print(y.shape[0], 'mlir' in sys.modules)"
    )
    command = [sys.executable, "-c", script]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert [run.split("\n")[0] for run in runs] == ["3 True", "3 False"]


def test_kernels_are_shared_between_models(own_cache: Path) -> None:
    x = np.ones((3, 8), np.float32)
    stepwell.compile(dense_layer(), threads=1)(x)
    before = {item.name for item in (own_cache / "kernels").glob("*/*")}
    stepwell.compile(dense_layer("lines"), threads=1)(x)
    assert before
    assert {item.name for item in (own_cache / "kernels").glob("*/*")} == before


def test_without_the_cache_nothing_is_written(own_cache: Path) -> None:
    stepwell.compile(dense_layer(), threads=1, options=stepwell.Options(cache=False))(np.ones((3, 8), np.float32))
    assert not own_cache.exists()


def test_shapes_can_be_compiled_ahead() -> None:
    run = stepwell.compile(dense_layer(), options=stepwell.Options(shapes={"x": (3, 8)}))
    assert [program.input_shapes for program in run.programs] == [((3, 8),)]


def test_saves_and_loads(tmp_path: Path) -> None:
    x = np.ones((3, 8), np.float32)
    run = stepwell.compile(dense_layer(), threads=1)
    run(x)
    run.save(tmp_path / "dense.stw")
    loaded = stepwell.load(tmp_path / "dense.stw", threads=2)
    np.testing.assert_array_equal(loaded(x), run(x))
    assert loaded.inputs == run.inputs


def test_other_targets_are_compiled_and_not_run() -> None:
    options = stepwell.Options(shapes={"x": (3, 8)})
    for target in ("x86-64-v3", "x86-64-v4", "aarch64"):
        (program,) = stepwell.compile(dense_layer(), target=target, options=options).programs
        assert all(data.startswith(b"\x7fELF") for data in program.objects.values())


@pytest.mark.parametrize("model", ["nowhere.onnx", 7])
def test_invalid_models_are_refused(model) -> None:
    with pytest.raises(SourceError):
        stepwell.compile(model)


def test_results_are_the_same_from_run_to_run() -> None:
    run = stepwell.compile(dense_layer(), threads=2)
    x = np.random.default_rng(2).standard_normal((64, 8)).astype(np.float32)
    first = run(x)
    assert all(np.array_equal(run(x), first) for _ in range(20))


def test_every_exported_name_exists() -> None:
    assert all(getattr(stepwell, name) is not None for name in stepwell.__all__)
    with pytest.raises(AttributeError):
        _ = stepwell.no_such_name


def test_an_unknown_target_is_refused_before_anything_is_compiled() -> None:
    with pytest.raises(stepwell.TargetError, match="x86-64-v3"):
        stepwell.compile(dense_layer(8), target="abacus")


def test_large_files_are_left_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.driver.sources.reading._LARGE_BYTES", 0)
    path, x = tmp_path / "dense.onnx", np.ones((3, 8), np.float32)
    onnx.save(dense_layer(), path)
    stepwell.compile(path, threads=1)(x)
    run = stepwell.compile(path, threads=1)
    np.testing.assert_allclose(run(x), expected(x), rtol=1e-5, atol=1e-6)
    run.save(tmp_path / "dense.stw", keep_model=True)
    again = stepwell.load(tmp_path / "dense.stw", threads=1)
    np.testing.assert_allclose(again(x[:2]), expected(x[:2]), rtol=1e-5, atol=1e-6)
    path.write_bytes(b"something else")
    with pytest.raises(stepwell.ArtefactError, match="has changed"):
        run.save(tmp_path / "dense.stw", keep_model=True)
