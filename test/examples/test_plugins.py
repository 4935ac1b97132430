"""Packages of third parties: each is installed as its users would, and used without naming it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PLUGINS = Path(__file__).parents[2] / "examples" / "plugins"
SHRINK = """func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %0 = "stepwell.matmul"(%x, %w) : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %1 = "example.shrink"(%0) {by = 0.25 : f64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = "stepwell.tanh"(%1) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}
"""
LOG_SOFTMAX = """func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = "stepwell.log_softmax"(%x) {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = "stepwell.exp"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder in which the packages are installed."""
    folder, copies = tmp_path_factory.mktemp("installed"), tmp_path_factory.mktemp("sources")
    command = ["pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder)]
    names = ("softmax_rewrite", "shrink_op", "layers_frontend")
    sources = [str(_copy(PLUGINS / name, copies / name)) for name in names]
    subprocess.run([sys.executable, "-m", *command, *sources], check=True)
    return folder


def _copy(source: Path, target: Path) -> Path:
    """Copies a package, because a build leaves files in its folder."""
    target.mkdir(parents=True)
    for file in source.iterdir():
        if file.is_file():
            (target / file.name).write_bytes(file.read_bytes())
    return target


def _run(installed: Path | None, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    path = {} if installed is None else {"PYTHONPATH": str(installed)}
    environment = {**os.environ, **path, "STEPWELL_CACHE_DIR": str(folder / "cache")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def _python(installed: Path | None, folder: Path, code: str) -> str:
    done = _run(installed, folder, sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.sweep
def test_a_pass_runs_at_the_phase_that_it_is_put_at(installed, tmp_path):
    (tmp_path / "model.mlir").write_text(LOG_SOFTMAX)
    code = """
import numpy as np, stepwell
from softmax_rewrite import UseSoftmaxPass
seen = []
def reached(phase, module, parameters):
    if phase == "graph":
        seen.extend(name for name in ("softmax", "log_softmax", "exp") if f"stepwell.{name}" in str(module))
plain = stepwell.compile("model.mlir", options=stepwell.Options(reached=reached))
added = [stepwell.At("graph", UseSoftmaxPass())]
changed = stepwell.compile("model.mlir", options=stepwell.Options(reached=reached, passes=added))
x = np.random.default_rng(0).standard_normal((4, 8), np.float32)
np.testing.assert_allclose(plain(x), changed(x), rtol=1e-5)
print(seen)
assert len({stepwell.Options(passes=item).key for item in (added, [stepwell.At("graph", "cse")], [])}) == 3
for late in ("kernels", "tiled", "llvm"):
    options = stepwell.Options(passes=[stepwell.At(late, "canonicalize,cse")])
    executable = stepwell.compile("model.mlir", options=options)
    np.testing.assert_allclose(executable(x), plain(x), rtol=1e-5)
"""
    assert _python(installed, tmp_path, code) == "['log_softmax', 'exp', 'softmax']\n"
    opt = _run(installed, tmp_path, "stepwell-opt", "model.mlir", "--example-use-softmax")
    assert "stepwell.softmax" in opt.stdout, opt.stderr


@pytest.mark.sweep
def test_an_op_of_another_dialect_is_read_verified_and_fused(installed, tmp_path):
    (tmp_path / "model.mlir").write_text(SHRINK)
    code = """
import numpy as np, stepwell
executable = stepwell.compile("model.mlir")
x, w = np.random.default_rng(0).standard_normal((2, 8, 8), np.float32)
product = x[:4] @ w[:, :6]
expected = np.tanh(np.sign(product) * np.maximum(np.abs(product) - 0.25, 0))
np.testing.assert_allclose(executable(x[:4], w[:, :6]), expected, atol=1e-5)
print(len(executable.report().kernels))
"""
    assert _python(installed, tmp_path, code) == "1\n"
    (tmp_path / "wrong.mlir").write_text(SHRINK.replace("f32", "i32"))
    done = _run(installed, tmp_path, "stepwell-compile", "wrong.mlir")
    assert "'example.shrink' op" in done.stderr
    bisected = _run(installed, tmp_path, "stepwell-bisect", "model.mlir")
    assert bisected.returncode == 0, bisected.stdout + bisected.stderr


def test_without_the_package_an_op_of_it_is_one_message(tmp_path):
    (tmp_path / "model.mlir").write_text(SHRINK)
    done = _run(None, tmp_path, "stepwell-compile", "model.mlir")
    assert done.returncode == 1
    assert "model.mlir: not valid MLIR: line 3, column 24: operation being parsed with an unregistered" in done.stderr


def test_a_file_of_another_format_is_compiled_saved_and_run(installed, tmp_path):
    weights = [[[1.0, -2.0], [0.5, 3.0], [0.0, 1.0]], [[1.0], [2.0]]]
    layers = [
        {"weight": weights[0], "bias": [0.5, 0.0], "activation": "relu"},
        {"weight": weights[1], "bias": [1.0]},
    ]
    (tmp_path / "model.layers").write_text(json.dumps({"input": [2, 3], "layers": layers}))
    code = """
import numpy as np, stepwell
executable = stepwell.compile("model.layers")
x = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
print(executable(x).ravel().tolist(), [info.name for info in executable.inputs])
"""
    x = [[-2.0, -1.0, 0.0], [1.0, 2.0, 3.0]]
    hidden = np.maximum(np.array(x) @ np.array(weights[0]) + [0.5, 0.0], 0)
    expected = (hidden @ np.array(weights[1]) + 1).ravel().tolist()
    assert _python(installed, tmp_path, code) == f"{expected} ['x']\n"
    for tool in ("stepwell-compile", "stepwell-run", "stepwell-bisect"):
        done = _run(installed, tmp_path, tool, "model.layers")
        assert done.returncode == 0, f"{tool}: {done.stdout}{done.stderr}"
    page = _run(installed, tmp_path, "stepwell-explore", "model.layers", "-o", "page.html")
    assert page.returncode == 0, page.stdout + page.stderr
    stored = _run(None, tmp_path, "stepwell-run", "model.stw")
    assert stored.returncode == 0, stored.stderr


@pytest.mark.sweep
def test_a_model_of_another_format_is_reduced_as_mlir(installed, tmp_path):
    layers = [
        {"weight": [[1.0] * 3] * 3, "bias": [0.5] * 3, "activation": name} for name in ("relu", "tanh", "sigmoid")
    ]
    (tmp_path / "model.layers").write_text(json.dumps({"input": [2, 3], "layers": layers}))
    done = _run(installed, tmp_path, "stepwell-reduce", "model.layers", "--test", "grep -q stepwell.tanh {}")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "reduce-1" / "best.mlir").read_text()
    assert "stepwell.tanh" in text
    assert "stepwell.sigmoid" not in text
    assert "stepwell.matmul" not in text


def test_a_model_that_no_package_imports_is_not_reduced(tmp_path):
    (tmp_path / "model.layers").write_text("{}")
    done = _run(None, tmp_path, "stepwell-reduce", "model.layers")
    assert done.returncode == 2
    message = "model.layers: no installed package imports '.layers' files, only .gguf, .mlir, .mlirbc, .onnx, .pt2"
    assert message in done.stderr


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "not a network of layers: TypeError"),
        ('{"input": [2, 3], "layers": [{"weight": [[1], [2], [3]]}]}', "layer_0: 'bias' is missing"),
        (
            '{"input": [2, 3], "layers": [{"weight": [[1], [2], [3]], "bias": [0], "activation": "none"}]}',
            "layer_0: the activation 'none' is not one of relu, sigmoid, tanh",
        ),
        ('{"input": [2, 3], "layers": [{"weight": [[1]], "bias": [0]}]}', "the frontend 'layers' failed: OpError: "),
    ],
)
def test_a_damaged_file_is_one_message(installed, tmp_path, text, message):
    (tmp_path / "model.layers").write_text(text)
    done = _run(installed, tmp_path, "stepwell-compile", "model.layers")
    assert done.returncode == 1
    assert f"model.layers: {message}" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_two_frontends_of_one_suffix_are_a_warning_that_names_both(installed, tmp_path):
    (tmp_path / "second.py").write_text(
        "from stepwell.frontend.registry import register_frontend\n"
        "class Second:\n    suffixes = ('.layers',)\n"
        "register_frontend('second', Second())\n"
    )
    info = tmp_path / "second-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: second\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[stepwell.frontends]\nzz = second\n")
    (tmp_path / "model.mlir").write_text(LOG_SOFTMAX)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import stepwell; stepwell.compile('model.mlir')"
    done = _run(installed, tmp_path, sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    assert "the plug-in 'zz' of the package second is left out" in done.stderr
    assert "the frontends 'layers' and 'second' both import .layers files" in done.stderr
