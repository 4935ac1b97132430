"""stepwell-compile and stepwell-run on a small model: their files, their output, and their errors."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from stepwell.driver import route
from stepwell.runtime.artefact import reader
from stepwell.runtime.devices import peaks
from stepwell.tools import bisect, cache, compile, explore, reduce, run

WEIGHT = np.random.default_rng(0).random((8, 4), np.float32)


@pytest.fixture
def model(tmp_path, monkeypatch) -> str:
    """An ONNX file of `y[n, 4] = max(x[n, 8] @ w, 0)`, in a folder that is also the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path / "cache"))
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], "mm"), helper.make_node("Relu", ["h"], ["y"], "relu")]
    interface = [value("x", TensorProto.FLOAT, ["n", 8])], [value("y", TensorProto.FLOAT, ["n", 4])]
    graph = helper.make_graph(nodes, "tiny", *interface, [numpy_helper.from_array(WEIGHT, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "tiny.onnx")
    return "tiny.onnx"


@pytest.fixture
def compiled(model, capsys) -> str:
    """The model as an artefact for two shapes."""
    assert compile.main([model, "--shape", "x=2x8", "--shape", "x=3x8"]) == 0
    assert "tiny.stw: " in capsys.readouterr().out
    return "tiny.stw"


def test_an_artefact_has_code_for_every_shape_and_target(compiled, model):
    assert [made.input_shapes for made in reader.read(Path(compiled)).programs] == [((2, 8),), ((3, 8),)]
    assert compile.main([model, "-o", "two.stw", "--shape=x=2x8", "--target=x86-64-v2,x86-64-v3", "--no-cache"]) == 0
    with zipfile.ZipFile("two.stw") as archive:
        manifest = json.loads(archive.read("manifest.json"))
    assert [program["target"]["cpu"] for program in manifest["programs"]] == ["x86-64-v2", "x86-64-v3"]


@pytest.mark.sweep
def test_an_artefact_for_a_range_runs_and_is_profiled_at_its_sizes(model, capsys):
    assert compile.main([model, "--dims=n=1:9", "-o", "ranged.stw"]) == 0
    for size in (1, 5, 9):
        assert run.main(["ranged.stw", f"--input=x={size}x8xf32:range", "--profile=trace.json", "--calls=2"]) == 0
        assert f"{size}x4" in capsys.readouterr().out
    assert run.main(["ranged.stw", "--input=x=10x8xf32:range"]) != 0
    assert "dimension 'n' is 10, but the model was compiled for 1 to 9" in capsys.readouterr().err


@pytest.mark.few(4)
@pytest.mark.parametrize("phase", route.names("cpu"))
def test_the_ir_of_every_phase_can_be_fed_back(model, capsys, phase):
    assert compile.main([model, "--shape=x=2x8", "--dump-phases=dumps", "-o", "first.stw"]) == 0
    (dump,) = Path("dumps").glob(f"*-{phase}.mlir")
    assert compile.main([str(dump), f"--compile-from={phase}", "--shape=x=2x8", "-o", "second.stw"]) == 0
    for name in ("first", "second"):
        assert run.main([f"{name}.stw", "--input=x=2x8xf32:range", f"--output={name}.npz"]) == 0
    first, second = (dict(np.load(f"{name}.npz")) for name in ("first", "second"))
    np.testing.assert_allclose(second["y"], first["y"], rtol=1e-6)


def test_the_ir_of_every_range_is_dumped(model):
    assert compile.main([model, "--dims=n=4/9", "--dump-phases=dumps", "-o", "ranged.stw"]) == 0
    expected = {f"{index}-{phase}.mlir" for index, phase in enumerate(route.names("cpu"))}
    for folder in (Path("dumps"), Path("dumps/range-2")):
        assert {path.name for path in folder.glob("*.mlir")} == expected
        assert "stepwell.ranges" in (folder / "0-import.mlir").read_text()


def test_the_ir_of_a_range_can_be_fed_back(model, capsys):
    assert compile.main([model, "--dims=n=4/9", "--dump-phases=dumps", "-o", "ranged.stw"]) == 0
    dump = "dumps/range-2/0-import.mlir"
    assert compile.main([dump, "--compile-from=import", "-o", "second.stw"]) == 0
    assert "n=5:9" in capsys.readouterr().out
    for name in ("ranged", "second"):
        assert run.main([f"{name}.stw", "--input=x=7x8xf32:range", f"--output={name}.npz"]) == 0
    first, second = (dict(np.load(f"{name}.npz")) for name in ("ranged", "second"))
    np.testing.assert_array_equal(second["y"], first["y"])
    assert run.main(["second.stw", "--input=x=4x8xf32:range"]) == 1
    assert compile.main([dump, "--shape=x=7x8", "-o", "fixed.stw"]) == 0
    assert run.main(["fixed.stw", "--input=x=7x8xf32:range"]) == 0
    capsys.readouterr()
    assert compile.main(["dumps/1-graph.mlir", "-o", "third.stw"]) == 1
    assert "compile it from the phase import" in capsys.readouterr().err


@pytest.mark.parametrize(("dims", "tops"), [("n=4/9", [4, 9]), ("n=1:9", [9])])
def test_compile_to_writes_every_range(model, capsys, dims, tops):
    assert compile.main([model, f"--dims={dims}", "--compile-to=graph"]) == 0
    modules = capsys.readouterr().out.split("// -----")
    assert len(modules) == len(tops)
    for module, top in zip(modules, tops, strict=True):
        assert f"%arg0: tensor<{top}x8xf32>" in module


def test_compile_to_writes_the_ir_of_a_phase(model, capsys):
    assert compile.main([model, "--shape=x=2x8", "--compile-to=import"]) == 0
    text = capsys.readouterr().out
    assert 'stepwell.phase = "import"' in text
    assert '"stepwell.matmul"' in text
    assert 'loc("mm")' in text


@pytest.mark.parametrize("path", ["tiny.onnx", "tiny.stw"])
def test_run_prints_writes_and_compares_outputs(compiled, capsys, path):
    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    np.save("x.npy", x)
    np.savez("good.npz", y=np.maximum(x @ WEIGHT, 0))
    wrong = np.maximum(x @ WEIGHT, 0)
    wrong[1, 1] += 1
    np.savez("bad.npz", y=wrong)
    assert run.main([path, "--input=x=@x.npy", "--expect=good.npz", "--output=out.npz", "--threads=1"]) == 0
    out = capsys.readouterr().out
    assert "y: matches" in out
    assert "with 1 threads" in out
    np.testing.assert_allclose(np.load("out.npz")["y"], x @ WEIGHT, rtol=1e-5)
    assert run.main([path, "--input=x=@x.npy", "--expect=bad.npz"]) == 1
    assert "y: DIFFERS: largest difference 1; 1 of 8 elements, first at (1, 1)" in capsys.readouterr().err


def test_profiles(compiled, capsys, monkeypatch):
    curve = [(1.0, 1e10), (1e9, 1e10)]
    monkeypatch.setattr(peaks, "known", lambda threads, cache: peaks.Peaks(threads, 1e11, curve, curve))
    assert run.main([compiled, "--input=x=2x8xf32", "--profile=p.json", "--calls=2"]) == 0
    printed = capsys.readouterr().out
    assert "one call takes" in printed
    assert "between kernels" in printed
    assert json.loads(Path("p.json").read_text())["stepwell"]["calls"] == 2
    assert run.main([compiled, "--input=x=2x8xf32", "--profile=p.json", "--calls=2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == 1
    assert run.main([compiled, "--input=x=2x8xf32", "--precision=bf16"]) == 2
    assert "cannot be changed for an artefact: it was fixed when the model was compiled" in capsys.readouterr().err


def test_run_prints_its_results_as_json(compiled, capsys):
    x = np.full((2, 8), np.nan, np.float32)
    np.save("x.npy", x)
    np.savez("good.npz", y=x @ WEIGHT)
    assert run.main([compiled, "--input=x=@x.npy", "--expect=good.npz", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["schema"] == 1
    (output,) = record["outputs"]
    assert (output["name"], output["shape"], output["min"], output["not_finite"]) == ("y", [2, 4], None, 8)
    assert record["compared"] == [{"output": "y", "matches": True, "text": record["compared"][0]["text"]}]


@pytest.mark.parametrize("tool", [compile, run, bisect, explore, reduce])
def test_failures_are_json_if_requested(model, capsys, tool):
    data = onnx.load("tiny.onnx")
    data.graph.node[0].input[0] = "nowhere"
    data.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    onnx.save(data, "dangling.onnx")
    assert tool.main(["dangling.onnx", "--json", *([] if tool is not reduce else ["--once"])]) == 1
    record = json.loads(capsys.readouterr().out)
    if tool is reduce:
        assert (record["schema"], record["status"], len(record["failures"])) == (1, "fails", 1)
        return
    assert (record["schema"], record["phase"], record["ops"][0]["name"]) == (1, "import", "mm")
    assert "reads 'nowhere'" in record["reason"]


@pytest.mark.parametrize("contents", ["random", "zeros", "ones", "range", "2.5"])
def test_inputs_are_made_up(compiled, capsys, contents):
    assert run.main([compiled, f"--input=x=3x8xf32:{contents}"]) == 0
    assert "3x4" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        (compile, ["tiny.onnx"], "input 'x' has no fixed shape (x: float32[n, 8]): add --shape x=1x8"),
        (compile, ["tiny.onnx", "--shape=z=3"], "--shape z: the model has no such input; it has x: float32[n, 8]"),
        (compile, ["tiny.onnx", "--shape=x=3y"], "--shape x=3y: '3y' is not the size of a dimension"),
        (compile, ["tiny.onnx", "--shape=3"], "--shape 3: write it as name=1x3x48x320"),
        (compile, ["tiny.onnx", "--compile-to=soup"], "there is no phase 'soup'; the phases are import, graph"),
        (compile, ["tiny.onnx", "--shape=x=2x8", "--compile-from=tiled"], "the module is in phase import"),
        (reduce, ["tiny.onnx", "--once"], "input 'x' has no fixed shape (x: float32[n, 8]): add --shape x=1x8"),
        (run, ["tiny.onnx"], "add --shape x=1x8"),
        (run, ["tiny.onnx", "--input=z=1xf32"], "--input z: the model has no such input"),
        (run, ["tiny.onnx", "--input=x=2x8xf33"], "'f33' is not an element type; these are: f16, f32"),
        (run, ["tiny.onnx", "--input=x=2x8xf32:many"], "'many' is not one of random, zeros"),
        (run, ["tiny.onnx", "--input=x=@no.npy"], "no.npy: not a .npy file that can be read"),
        (run, ["tiny.onnx", "--input=x=2x8xf32", "--expect=no.npz"], "--expect no.npz: not a .npz file"),
        (run, ["tiny.onnx", "--input=x"], "--input x: write it as"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(model, capsys, tool, arguments, message):
    assert tool.main(arguments) == 2
    _one_line(tool, message, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        (compile, ["missing.onnx"], "missing.onnx: No such file or directory"),
        (compile, ["tiny.onnx", "--shape=x=3x7"], "input 'x' must have 8 in dimension 1"),
        (
            compile,
            ["tiny.onnx", "--shape=x=2x8", "-o", "no/x.stw"],
            "no/x.stw: cannot be written: there is no such folder",
        ),
        (compile, ["tiny.onnx", "--shape=x=2x8", "--target=z80"], "z80"),
        (run, ["tiny.onnx", "--input=x=2x8xf64"], "input 'x' must be float32, but is float64"),
        (run, ["broken.stw"], "broken.stw: the file is cut short or damaged"),
        (run, ["broken.onnx"], "broken.onnx: not an ONNX model"),
    ],
)
def test_errors_are_one_line_and_exit_code_1(model, capsys, tool, arguments, message):
    Path("broken.stw").write_bytes(b"PK nothing")
    Path("broken.onnx").write_bytes(b"nothing")
    assert tool.main(arguments) == 1
    _one_line(tool, message, capsys.readouterr().err)


def _one_line(tool, message, printed):
    assert printed.startswith(f"{tool.NAME}: error: ")
    assert message in printed
    assert printed.count("\n") == 1


def test_commands_are_installed_under_their_names():
    for tool in ("compile", "run", "cache"):
        done = subprocess.run(
            [sys.executable, "-m", f"stepwell.tools.{tool}", "--help"], capture_output=True, text=True
        )
        assert done.stdout.startswith(f"usage: stepwell-{tool}"), done.stderr


def test_a_kept_model_is_compiled_for_further_shapes(compiled, model, capsys):
    assert run.main([compiled, "--input=x=5x8xf32"]) == 1
    assert "no code for x=5x8, and no compiler is available; there is code for: x=2x8; x=3x8" in capsys.readouterr().err
    assert compile.main([model, "--shape=x=2x8", "--keep-model", "-o", "kept.stw"]) == 0
    assert run.main(["kept.stw", "--input=x=5x8xf32"]) == 0
    assert "5x4" in capsys.readouterr().out


def test_the_cache_is_listed_verified_and_cleared(compiled, capsys):
    assert cache.main(["list"]) == 0
    assert "programs" in capsys.readouterr().out
    assert cache.main(["list", "--entries"]) == 0
    listed = capsys.readouterr().out
    assert cache.main(["verify"]) == 0
    entry = next(Path("cache/programs").glob("*/*"))
    assert entry.name in listed
    entry.write_bytes(entry.read_bytes()[:-1])
    assert cache.main(["verify"]) == 1
    assert f"{entry.name}: damaged" in capsys.readouterr().err
    assert cache.main(["clear"]) == 0
    assert not list(Path("cache").glob("*/*/*"))


def test_a_disabled_cache_is_an_error(monkeypatch, capsys):
    monkeypatch.setenv("STEPWELL_CACHE", "0")
    assert cache.main(["list"]) == 2
    assert capsys.readouterr().err == "stepwell-cache: error: the cache is turned off (STEPWELL_CACHE)\n"


def test_an_artefact_runs_where_nothing_of_the_compiler_is_installed(compiled):
    code = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mlir", "onnx", "platformdirs", "rich"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocker())
import numpy, stepwell
assert stepwell.load("tiny.stw")(numpy.ones((2, 8), numpy.float32)).shape == (2, 4)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
