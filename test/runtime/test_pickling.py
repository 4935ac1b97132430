"""Executables survive pickle, copies and process pools; artefacts load from memory and open files."""

from __future__ import annotations

import copy
import io
import multiprocessing
import pickle
from pathlib import Path

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper

WEIGHT = np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32)
X = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)


def _model(*, strings: bool = False) -> onnx.ModelProto:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 5])]
    if strings:
        nodes.append(helper.make_node("Cast", ["y"], ["s"], to=TensorProto.STRING))
        outputs.append(helper.make_tensor_value_info("s", TensorProto.STRING, ["rows", 5]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 8])
    graph = helper.make_graph(nodes, "dense", [x], outputs, [numpy_helper.from_array(WEIGHT, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _compiled(**options) -> stepwell.Executable:
    return stepwell.compile(_model(), threads=2, options=options)


WAYS = {
    "pickle": lambda run: pickle.loads(pickle.dumps(run)),
    "oldest protocol": lambda run: pickle.loads(pickle.dumps(run, protocol=0)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "twice": lambda run: pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(run)))),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_a_copy_keeps_programs_threads_and_the_compiler(way) -> None:
    run = _compiled()
    run(X)
    other = way(run)
    assert other is not run
    assert [program.input_shapes for program in other.programs] == [((3, 8),)]
    assert (other.threads, other.name, other.inputs, other.outputs) == (2, run.name, run.inputs, run.outputs)
    np.testing.assert_array_equal(other(X), run(X))
    np.testing.assert_array_equal(other(X[:2]), run(X[:2]))  # a shape that is compiled only now
    assert len(other.programs) == 2


def test_copies_are_independent() -> None:
    run = _compiled()
    other = copy.deepcopy(run)
    other.threads = 1
    other(X)
    assert (run.threads, len(run.programs), len(other.programs)) == (2, 0, 1)


def test_the_default_of_threads_is_that_of_the_machine_that_unpickles(monkeypatch: pytest.MonkeyPatch) -> None:
    run = stepwell.compile(_model())
    data = pickle.dumps(run)
    monkeypatch.setattr("stepwell.runtime.executable.available_cores", lambda: 7)
    assert pickle.loads(data).threads == 7
    run.threads = 3
    assert pickle.loads(pickle.dumps(run)).threads == 3


@pytest.mark.parametrize("way", [WAYS["pickle"], WAYS["deepcopy"]], ids=["pickle", "deepcopy"])
def test_ranges_survive(way) -> None:
    run = _compiled(dims={"rows": (1, 9)})
    other = way(run)
    assert other.ranges == run.ranges
    np.testing.assert_array_equal(other(X), run(X))
    with pytest.raises(stepwell.InputError, match="rows"):
        other(np.zeros((10, 8), np.float32))


@pytest.mark.parametrize("way", [WAYS["pickle"], WAYS["deepcopy"]], ids=["pickle", "deepcopy"])
def test_nodes_on_the_host_survive(way) -> None:
    run = stepwell.compile(_model(strings=True), threads=1, options={"fallback": "quiet"})
    expected = run(X)
    other = way(run)
    assert [item.op_type for item in other.fallbacks] == ["Cast"]
    for rows in (X, X[:1]):
        for got, want in zip(other(rows), run(rows), strict=True):
            np.testing.assert_array_equal(got, want)
    assert len(expected) == 2


def test_options_survive_and_callbacks_do_not(tmp_path: Path) -> None:
    seen = []
    run = _compiled(cache=False, winograd=False, reached=lambda *phase: seen.append(phase))
    other = pickle.loads(pickle.dumps(run))
    other(X)
    assert seen == []
    run(X)
    assert seen != []
    other.save(tmp_path / "kept.stw", keep_model=True)
    np.testing.assert_array_equal(stepwell.load(tmp_path / "kept.stw", threads=1)(X[:2]), run(X[:2]))


def test_a_large_file_is_pickled_with_its_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.driver.sources.reading._LARGE_BYTES", 1)
    onnx.save(_model(), tmp_path / "model.onnx")
    run = stepwell.compile(tmp_path / "model.onnx", threads=1)
    data = pickle.dumps(run)
    (tmp_path / "model.onnx").unlink()
    np.testing.assert_allclose(pickle.loads(data)(X), np.maximum(X @ WEIGHT, 0), rtol=1e-5, atol=1e-6)


def test_without_mlir_only_what_was_compiled_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    run = _compiled()
    expected = run(X)
    data = pickle.dumps(run)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    other = pickle.loads(data)
    np.testing.assert_array_equal(other(X), expected)
    with pytest.raises(stepwell.ShapeError, match="no compiler"):
        other(X[:2])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_pools_run_executables(method: str) -> None:
    run = stepwell.compile(_model(), threads=1, options={"shapes": {"x": (3, 8)}})
    with multiprocessing.get_context(method).Pool(1) as pool:
        results = pool.map(run, [X, X + 1])
    for got, x in zip(results, (X, X + 1), strict=True):
        np.testing.assert_array_equal(got, run(x))


def test_loads_from_paths_bytes_and_open_files(tmp_path: Path) -> None:
    run = _compiled()
    expected = run(X)
    path = tmp_path / "model.stw"
    run.save(path)
    data = path.read_bytes()
    with open(path, "rb") as file:
        for given in (path, str(path), data, bytearray(data), memoryview(data), io.BytesIO(data), file):
            np.testing.assert_array_equal(stepwell.load(given, threads=1)(X), expected)


@pytest.mark.parametrize("given", [3, None, io.StringIO("text"), b"", b"not an artefact", object()])
def test_invalid_artefacts_are_refused(given) -> None:
    with pytest.raises(stepwell.ArtefactError):
        stepwell.load(given)
