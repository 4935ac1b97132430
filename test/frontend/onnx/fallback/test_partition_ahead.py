"""Partitioned models saved before a call: all subgraphs have code, or the artefact holds the model and says so."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import stepwell
from mlir import ir
from onnx import helper, numpy_helper
from stepwell.passes.infra.base import PassError
from stepwell.runtime.hybrid.loaded_plan import LoadedPlan
from stepwell.tools.compile import main

from .graphs import BOOL, FLOAT, INT64, QUIET, STRING, node, through_text, value

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
W = np.arange(16, dtype=np.float32).reshape(4, 4) / 8
RUN = """
import sys
sys.modules["mlir"] = None  # cannot be imported
import numpy as np, importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "mlir" else find(name, *more)
import stepwell
run = stepwell.load(sys.argv[1], threads=1)
np.save(sys.argv[3], [run(x) for x in np.load(sys.argv[2])])
"""

pytestmark = pytest.mark.usefixtures("own_cache")


def model_of(*nodes, outputs=("y",), shape=(3, 4)):
    """Makes a model with the input x."""
    constants = {"w": W, "zero": np.zeros(4, np.float32), "three": np.array(3), "two": np.array(2)}
    weights = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    given = [value(name, FLOAT) for name in outputs]
    graph = helper.make_graph(list(nodes), "g", [value("x", FLOAT, shape)], given, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def behind_random_numbers():
    """A subgraph after a node that the compiler has no code for."""
    return model_of(
        node("MatMul", ["x", "w"], ["a"]),
        node("RandomNormalLike", ["a"], ["r"], scale=0.0),
        node("Add", ["a", "r"], ["s"]),
        node("MatMul", ["s", "w"], ["y"]),
    )


def behind_strings():
    """Two consecutive nodes on the host; the first returns strings."""
    return model_of(node("MatMul", ["x", "w"], ["a"]), *through_text("a", "b"), node("Exp", ["b"], ["y"]))


def with_sizes_from_a_shape():
    """A subgraph whose sizes another one computes from the shape of a value."""
    return model_of(
        node("MatMul", ["x", "w"], ["a"]),
        node("Shape", ["a"], ["sizes"]),
        *through_text("a", "b"),
        node("Add", ["sizes", "two"], ["more"]),
        node("Expand", ["zero", "sizes"], ["zeros"]),
        node("Add", ["zeros", "b"], ["c"]),
        node("ConstantOfShape", ["more"], ["d"]),
        node("ReduceSum", ["d"], ["e"], keepdims=0),
        node("Add", ["c", "e"], ["y"]),
    )


def branches():
    """Two branches, both compiled; a run takes one."""
    bodies = {
        name: helper.make_graph(
            [*through_text("a", f"{name}_t"), node(op_type, [f"{name}_t"], [f"{name}_y"])],
            name,
            [],
            [value(f"{name}_y", FLOAT)],
        )
        for name, op_type in (("then_branch", "Exp"), ("else_branch", "Neg"))
    }
    return model_of(
        node("Relu", ["x"], ["a"]),
        node("ReduceSum", ["x"], ["total"], keepdims=0),
        node("Cast", ["total"], ["chosen"], to=BOOL),
        node("If", ["chosen"], ["b"], **bodies),
        node("MatMul", ["b", "w"], ["y"]),
    )


def rounds():
    """A loop whose body is compiled, with a subgraph after it."""
    body = helper.make_graph(
        [*through_text("a", "t"), node("Tanh", ["t"], ["b"]), node("Identity", ["c"], ["on"])],
        "body",
        [value("i", INT64, []), value("c", BOOL, []), value("a", FLOAT, None)],
        [value("on", BOOL, None), value("b", FLOAT, None)],
    )
    loop = node("Loop", ["three", "", "x"], ["l"], body=body)
    return model_of(loop, node("MatMul", ["l", "w"], ["y"]))


def scanned():
    """A Scan over rows, with a subgraph after it."""
    body = helper.make_graph(
        [*through_text("row", "t"), node("Add", ["state", "t"], ["next"]), node("Exp", ["next"], ["out"])],
        "body",
        [value("state", FLOAT, [4]), value("row", FLOAT, [4])],
        [value("next", FLOAT, [4]), value("out", FLOAT, [4])],
    )
    scan = node("Scan", ["zero", "x"], ["last", "all"], body=body, num_scan_inputs=1)
    return model_of(scan, node("MatMul", ["all", "w"], ["m"]), node("Add", ["m", "last"], ["y"]))


MODELS = [behind_random_numbers, behind_strings, with_sizes_from_a_shape, branches, rounds, scanned]


def run_without_mlir(artefact: Path, *inputs: np.ndarray) -> np.ndarray:
    """Returns the results of an artefact in a process that cannot import MLIR."""
    folder = artefact.parent
    np.save(folder / "x.npy", inputs)
    command = [sys.executable, "-c", RUN, *map(str, (artefact, folder / "x.npy", folder / "y.npy"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return np.load(folder / "y.npy")


@pytest.mark.few(1)
@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_all_subgraphs_are_compiled_ahead(make, tmp_path):
    onnx.save(make(), tmp_path / "model.onnx")
    path = tmp_path / "model.stw"
    assert main([str(tmp_path / "model.onnx"), "-o", str(path), "--fallback=quiet"]) == 0
    assert stepwell.load(path).source is None
    run = stepwell.compile(make(), threads=1, options=QUIET)
    inputs = X, np.zeros_like(X)
    np.testing.assert_array_equal(run_without_mlir(path, *inputs), [run(x) for x in inputs])
    assert run.fallbacks


def test_save_before_a_call_holds_all_subgraphs(tmp_path):
    run = stepwell.compile(behind_random_numbers(), threads=1, options=QUIET)
    assert run.uncompiled == []
    run.save(tmp_path / "model.stw")
    np.testing.assert_array_equal(run_without_mlir(tmp_path / "model.stw", X), [run(X)])


def test_subgraphs_behind_a_node_at_which_a_pass_failed_are_compiled(tmp_path, monkeypatch):
    model = model_of(node("MatMul", ["x", "w"], ["a"]), node("Erf", ["a"], ["b"]), node("MatMul", ["b", "w"], ["y"]))
    expected = stepwell.compile(model, threads=1, options=stepwell.Options(cache=False))(X)
    compile_whole = stepwell.driver.compile.compilation.Compilation.program

    def fails_at_erf(self, source, shapes, contents=None, workers=None):
        if any(item.op_type == "Erf" for item in source.model.proto.graph.node):
            raise PassError("cannot do it", ir.Location.name("Erf_b", context=ir.Context()))
        return compile_whole(self, source, shapes, contents, workers)

    monkeypatch.setattr("stepwell.driver.compile.compilation.Compilation.program", fails_at_erf)
    run = stepwell.compile(model, threads=1, options=stepwell.Options(fallback="quiet", cache=False))
    assert [found.op_type for found in run.fallbacks] == ["Erf"]
    run.save(tmp_path / "model.stw")
    assert stepwell.load(tmp_path / "model.stw").source is None
    np.testing.assert_allclose(run_without_mlir(tmp_path / "model.stw", X), [expected], rtol=1e-5, atol=1e-6)


def after_nonzero():
    """A subgraph whose shapes depend on the contents of x."""
    return model_of(
        node("NonZero", ["x"], ["places"]),
        node("Cast", ["places"], ["text"], to=STRING),
        node("Cast", ["text"], ["numbers"], to=FLOAT),
        node("Exp", ["numbers"], ["y"]),
    )


@pytest.mark.filterwarnings("default")
def test_the_model_is_stored_if_shapes_are_known_only_at_run_time(tmp_path, capsys):
    path = tmp_path / "model.onnx"
    onnx.save(after_nonzero(), path)
    assert main([str(path), "-o", str(tmp_path / "model.stw"), "--fallback=quiet"]) == 0
    told = capsys.readouterr().err
    assert "the model is stored too" in told and "is known only at run time" in told
    loaded = stepwell.load(tmp_path / "model.stw", threads=1)
    assert loaded.source is not None
    np.testing.assert_allclose(loaded(X), np.exp(np.array(np.nonzero(X), np.float32)), rtol=1e-5)


def test_save_stores_the_model_and_warns(tmp_path):
    run = stepwell.compile(after_nonzero(), threads=1, options=QUIET)
    with pytest.warns(UserWarning, match="includes the model.*the shape of .* is known only at run time"):
        run.save(tmp_path / "model.stw")
    assert stepwell.load(tmp_path / "model.stw").source is not None
    run(X)
    run.save(tmp_path / "model.stw")
    assert stepwell.load(tmp_path / "model.stw").source is None


def test_save_of_a_model_that_no_shapes_were_compiled_for_stores_it(tmp_path):
    run = stepwell.compile(model_of(node("Exp", ["x"], ["y"]), shape=("n", 4)), threads=1)
    with pytest.warns(UserWarning, match="not been compiled for any input shapes yet"):
        run.save(tmp_path / "model.stw")
    np.testing.assert_allclose(stepwell.load(tmp_path / "model.stw", threads=1)(X), np.exp(X), rtol=1e-6)
    run.source = None
    with pytest.raises(stepwell.ArtefactError, match="not been compiled for any input shapes yet"):
        run.save(tmp_path / "other.stw")


def test_a_branch_that_no_run_took_is_not_forgotten(tmp_path):
    model = branches()
    model.graph.input[0].CopyFrom(value("x", FLOAT, ["n", 4]))
    run = stepwell.compile(model, threads=1, options=QUIET)
    run(X)
    assert any("no run has reached the subgraph" in reason for reason in run.uncompiled)
    run.prepare({"x": X.shape})
    assert run.uncompiled == []


def test_contents_known_only_at_run_time_are_not_guessed():
    """No shape determines the shape of NonZero's result, though ONNX has a node Shape for it."""
    model = model_of(
        node("NonZero", ["x"], ["places"]),
        node("Cast", ["places"], ["text"], to=STRING),
        node("Shape", ["text"], ["sizes"]),
        node("ConstantOfShape", ["sizes"], ["y"]),
    )
    run = stepwell.compile(model, threads=1, options=QUIET)
    assert run.uncompiled
    assert isinstance(run._code.steps, LoadedPlan)
    assert run(X).shape == (2, np.count_nonzero(X))
