"""Code of other packages in compiles: it is a part of every cache key, and broken packages are left out."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stepwell
from onnx import TensorProto, helper
from stepwell.dialects.stepwell.elementwise import NegOp, ReluOp
from stepwell.driver.caching import plugins
from stepwell.driver.compile.compilation import Compilation
from stepwell.driver.sources.reading import read_source
from stepwell.driver.workers.pool import kernel_pool
from stepwell.explain.cache import explain_cache
from stepwell.passes.graph.patterns import movement
from stepwell.passes.ir.rewriting import Pattern
from stepwell.runtime.cache.cache import Cache

X = np.array([[-1, 2, -3]], np.float32)
RELU = helper.make_model(
    helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"], name="relu")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
    ),
    opset_imports=[helper.make_opsetid("", 17)],
    ir_version=9,
).SerializeToString()
PLUGIN = """
from stepwell.dialects.stepwell.elementwise import NegOp, ReluOp
from stepwell.passes.graph.patterns import movement
from stepwell.passes.ir.rewriting import Pattern

class Negate(Pattern[ReluOp]):
    root = ReluOp

    def rewrite(self, op):
        return NegOp(op.input).result

movement.PATTERNS = (*movement.PATTERNS, Negate())
"""
RUN = """
import pathlib, sys, numpy as np, stepwell
run = stepwell.compile(pathlib.Path(sys.argv[1]).read_bytes(), threads=1)
print(run(np.array([[-1, 2, -3]], np.float32)).tolist(), "mlir" in sys.modules)
"""


class Negate(Pattern[ReluOp]):
    """relu(x) --> -x"""

    root = ReluOp

    def rewrite(self, op):
        return NegOp(op.input).result


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, and no plug-ins of other test files."""
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path / "cache"))
    return Cache(tmp_path / "cache")


def digest_of(item):
    """Returns the identity of a function or class."""
    digest = plugins._Digest()
    digest.add(item)
    return digest.hex


def run_process(script, *arguments, path=None, **environment):
    """Returns the standard output and the standard error of a Python process."""
    variables = {**os.environ, **environment, **({} if path is None else {"PYTHONPATH": str(path)})}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def install(folder: Path, name: str, text: str) -> None:
    """Installs a package with an entry point into a folder, as installers do."""
    (folder / f"{name}.py").write_text(text)
    info = folder / f"{name}_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[stepwell.passes]\n{name}-entry = {name}\n")


@pytest.mark.sweep
def test_the_compiler_has_no_foreign_code_of_its_own():
    script = "import sys, stepwell; from stepwell.driver.caching import plugins\n"
    script += "stepwell.compile(bytes.fromhex(sys.argv[1]), options=stepwell.Options(cache=False))\n"
    script += "from stepwell.passes.infra import discovery\n"
    script += "discovery.all_passes(); print(list(plugins.registrations()))"
    assert run_process(script, RELU.hex())[0] == "[]"


def test_code_made_with_a_pattern_is_not_taken_without_it(monkeypatch):
    np.testing.assert_array_equal(stepwell.compile(RELU, threads=1)(X), np.maximum(X, 0))
    with monkeypatch.context() as patches:
        patches.setattr(movement, "PATTERNS", (*movement.PATTERNS, Negate()))
        np.testing.assert_array_equal(stepwell.compile(RELU, threads=1)(X), -X)
    monkeypatch.setattr("stepwell.driver.compile.compilation.Compilation.program", None)
    np.testing.assert_array_equal(stepwell.compile(RELU, threads=1)(X), np.maximum(X, 0))


def test_explain_names_the_plugin(cache, monkeypatch):
    stepwell.compile(RELU)
    monkeypatch.setattr(movement, "PATTERNS", (*movement.PATTERNS, Negate()))
    (answer,) = explain_cache(cache, RELU, [{}], "cpu", stepwell.Options())
    assert set(answer.differences) == {"plugins"}
    assert __name__.rpartition(".")[2] in answer.differences["plugins"][0]


@pytest.mark.workers
@pytest.mark.parametrize("fingerprint", ["", "plugin:1"])
def test_kernels_are_compiled_in_this_process(fingerprint, monkeypatch):
    asked = []

    def pool(processes, workers, *, may_start):
        asked.append(may_start)
        return kernel_pool(1)

    monkeypatch.setattr("stepwell.driver.compile.compilation.kernel_pool", pool)
    Compilation(plugins=fingerprint).program(read_source(RELU), {"x": (1, 3)})
    assert asked == [fingerprint == ""]
    with kernel_pool(2, may_start=False) as alone:
        assert not alone.workers


@pytest.mark.sweep
def test_an_installed_plugin_works_and_has_code_of_its_own(tmp_path):
    (tmp_path / "model.onnx").write_bytes(RELU)
    (tmp_path / "site").mkdir()
    install(tmp_path / "site", "negating", PLUGIN)
    for _ in range(2):
        assert run_process(RUN, tmp_path / "model.onnx", path=tmp_path / "site")[0].startswith("[[1.0, -2.0, 3.0]]")
        assert run_process(RUN, tmp_path / "model.onnx")[0].startswith("[[0.0, 2.0, 0.0]]")
    assert run_process(RUN, tmp_path / "model.onnx")[0].endswith("False")
    (tmp_path / "site" / "negating.py").write_text(PLUGIN.replace("NegOp(op.input).result", "None"))
    assert run_process(RUN, tmp_path / "model.onnx", path=tmp_path / "site")[0].startswith("[[0.0, 2.0, 0.0]]")


def test_a_broken_plugin_is_left_out_with_one_warning(tmp_path):
    (tmp_path / "model.onnx").write_bytes(RELU)
    (tmp_path / "site").mkdir()
    install(tmp_path / "site", "broken", "raise RuntimeError('it was made for another version')")
    out, told = run_process(RUN, tmp_path / "model.onnx", path=tmp_path / "site")
    assert out.startswith("[[0.0, 2.0, 0.0]]")
    wanted = "the plug-in 'broken-entry' of the package broken-package is left out: RuntimeError: it was made for"
    assert told.count(wanted) == 1


def test_a_plugin_may_import_the_driver(tmp_path):
    # The phases of a target hold passes of MLIR, so they are looked up while modules of the compiler are loading.
    install(tmp_path, "early", "from stepwell.driver import route; from stepwell.targets.x86_64 import X86Backend")
    script = "from stepwell.driver import route; print('tiled' in route.names('x86-64-v3'))"
    assert run_process(script, path=tmp_path) == ("True", "")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("lambda x: x + 1", "lambda x: x + 2"),
        ("lambda x: SCALE * x", "lambda x: -SCALE * x"),
        ("functools.partial(f, 1)", "functools.partial(f, 2)"),
        ("closing(1)", "closing(2)"),
        ("(lambda x, y=1: x)", "(lambda x, y=2: x)"),
        ("type('A', (), {'run': lambda self: 1})", "type('A', (), {'run': lambda self: 2})"),
        ("lambda x: TABLE['a'](x)", "lambda x: TABLE['b'](x)"),
        ("lambda x: x in {'a', 'b'}", "lambda x: x in {'a', 'c'}"),
    ],
)
def test_different_code_without_a_source_file_has_another_digest(first, second):
    script = f"""
import functools, sys
from stepwell.driver.caching import plugins
SCALE, TABLE = 2, {{"a": lambda x: x, "b": lambda x: -x}}
def f(y, x): return x * y
def closing(y): return lambda x: x * y
for make in (lambda: {first}, lambda: {first}, lambda: {second}):
    digest = plugins._Digest()
    digest.add(make())
    print(digest.hex)
"""
    told = {run_process(script, PYTHONHASHSEED=str(seed))[0] for seed in range(2)}
    (lines,) = told
    one, same, other = lines.split()
    assert one == same != other


def test_a_global_that_code_reads_counts():
    def make(scale):
        scope = {"__name__": "__main__", "SCALE": scale}
        exec("def f(x): return SCALE * x", scope)
        return scope["f"]

    assert digest_of(make(1)) == digest_of(make(1)) != digest_of(make(2))


def test_a_plugin_may_refer_to_any_amount_of_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that is too large, or nested deeper than Python's stack allows, is not digested completely."""
    from stepwell.passes.graph.convolutions import choose_winograd

    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    many = [str(number) for number in range(100_000)]
    before = plugins.fingerprint()
    monkeypatch.setattr(choose_winograd, "_tile_of", lambda method: (nested, many))
    assert plugins.fingerprint() not in ("", before)
    assert plugins.fingerprint() == plugins.fingerprint()


def test_a_plugin_with_the_name_of_a_module_of_python_is_none_of_pythons(tmp_path, monkeypatch):
    assert plugins._is_own("json.decoder") and plugins._is_own("math") and plugins._is_own("stepwell.passes")
    hiding = types.ModuleType("sndhdr")
    hiding.__file__ = str(tmp_path / "sndhdr.py")
    monkeypatch.setitem(sys.modules, "sndhdr", hiding)
    plugins._is_own.cache_clear()
    assert not plugins._is_own("sndhdr")
    plugins._is_own.cache_clear()
