"""The target of the example package `cube_target`: installed as its users would, and compiled for by its name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import llvm
import pytest

PACKAGE = Path(__file__).parents[2] / "examples" / "plugins" / "cube_target"
SCRIPTS = Path(__file__).parent / "cube"
PATH = os.pathsep.join([str(Path(llvm.__file__).parent / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
SMALL = """func.func @main(%x: tensor<64x96xf32>, %w: tensor<96x128xf32>) -> tensor<64x128xf32> {
  %0 = "stepwell.matmul"(%x, %w) : (tensor<64x96xf32>, tensor<96x128xf32>) -> tensor<64x128xf32> loc("dense")
  %1 = "stepwell.relu"(%0) : (tensor<64x128xf32>) -> tensor<64x128xf32> loc("relu")
  return %1 : tensor<64x128xf32>
}
"""
NUMBERS = """
import numpy as np, stepwell
x, w = (np.random.default_rng(0).standard_normal(s).astype(np.float32) for s in ((64, 96), (96, 128)))
expected = np.maximum(x.astype(np.float16).astype(np.float32) @ w.astype(np.float16).astype(np.float32), 0)
"""

PACK = """
// CHECK-LABEL: func.func @product
// CHECK-NOT: stepwell.matmul
// CHECK: stepwell.packed_matmul"(%{{.+}}, %{{.+}}) {columns = 96 : i64, panel = 549755813888 : i64}
func.func @product(%x: tensor<32x64xf16>) -> tensor<32x96xf16> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 64, 96>, dtype = f16} : () -> tensor<64x96xf16>
  %0 = "stepwell.matmul"(%x, %w) : (tensor<32x64xf16>, tensor<64x96xf16>) -> tensor<32x96xf16>
  return %0 : tensor<32x96xf16>
}

// -----

// CHECK-LABEL: func.func @batch
// CHECK: stepwell.reshape
// CHECK-NOT: stepwell.transpose
// CHECK: stepwell.packed_matmul{{.*}}batch = 2 : i64, columns = 40 : i64, panel = 40 : i64
func.func @batch(%x: tensor<2x32x64xf16>, %y: tensor<2x64x40xf16>) -> tensor<2x32x40xf16> {
  %0 = "stepwell.matmul"(%x, %y) : (tensor<2x32x64xf16>, tensor<2x64x40xf16>) -> tensor<2x32x40xf16>
  return %0 : tensor<2x32x40xf16>
}

// -----

// CHECK-LABEL: func.func @negative_float32
// CHECK: stepwell.matmul
func.func @negative_float32(%x: tensor<32x64xf32>, %y: tensor<64x40xf32>) -> tensor<32x40xf32> {
  %0 = "stepwell.matmul"(%x, %y) : (tensor<32x64xf32>, tensor<64x40xf32>) -> tensor<32x40xf32>
  return %0 : tensor<32x40xf32>
}

// -----

// CHECK-LABEL: func.func @negative_one_row
// CHECK: stepwell.matmul
func.func @negative_one_row(%x: tensor<1x64xf16>) -> tensor<1x96xf16> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 64, 96>, dtype = f16} : () -> tensor<64x96xf16>
  %0 = "stepwell.matmul"(%x, %w) : (tensor<1x64xf16>, tensor<64x96xf16>) -> tensor<1x96xf16>
  return %0 : tensor<1x96xf16>
}
"""
KERNEL = """
module {
  // CHECK: func.func private @unit(tensor<32x16xf16>, tensor<16x16xf16>, tensor<32x16xf16>) -> tensor<32x16xf16>
  // CHECK-SAME: cube.code = ["machine v1, arguments of 1024, 512, 1024 bytes",
  // CHECK-SAME: "%0 = f16 argument 0 + 0, rows 32:16, columns 16:1",
  // CHECK-SAME: "load %0[0:32, 0:16] -> 0x0",
  // CHECK-SAME: "load %1[0:16, 0:16] -> {{0x[0-9a-f]+}} | signal compute",
  // CHECK-SAME: "multiply 0x0 * {{0x[0-9a-f]+}} -> 0x0, 2x1x1 f16*f16, start | wait load | signal store",
  // CHECK-SAME: "store 0x0 -> %2[0:32, 0:16] | wait compute"]
  // CHECK-SAME: stepwell.schedule = {blocks = array<i64: 32, 16, 16>
  func.func private @unit(%x: tensor<32x16xf16>, %w: tensor<16x16xf16>, %out: tensor<32x16xf16>)
      -> tensor<32x16xf16> attributes {stepwell.kernel = {bytes = 1, class = "contraction", flops = 1}} {
    %sum = tensor.empty() : tensor<32x16xf32>
    %zero = arith.constant 0.0 : f32
    %start = linalg.fill ins(%zero : f32) outs(%sum : tensor<32x16xf32>) -> tensor<32x16xf32>
    %product = linalg.generic {
        indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
                         affine_map<(m, n, k) -> (m, n)>],
        iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%x, %w : tensor<32x16xf16>, tensor<16x16xf16>) outs(%start : tensor<32x16xf32>)
        attrs = {stepwell.contraction = 0} {
    ^bb0(%a: f16, %b: f16, %c: f32):
      %0 = arith.extf %a : f16 to f32
      %1 = arith.extf %b : f16 to f32
      %2 = arith.mulf %0, %1 : f32
      %3 = arith.addf %c, %2 : f32
      linalg.yield %3 : f32
    } -> tensor<32x16xf32>
    %rounded = linalg.generic {
        indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
        iterator_types = ["parallel", "parallel"]}
        ins(%product : tensor<32x16xf32>) outs(%out : tensor<32x16xf16>) attrs = {stepwell.root = 0} {
    ^bb0(%a: f32, %b: f16):
      %0 = arith.truncf %a : f32 to f16
      linalg.yield %0 : f16
    } -> tensor<32x16xf16>
    return %rounded : tensor<32x16xf16>
  }

  // CHECK: func.func private @negative_transposed(
  // CHECK-SAME: cube.reason = "it is more than one contraction"
  func.func private @negative_transposed(%x: tensor<32x16xf16>, %w: tensor<16x16xf16>, %out: tensor<16x32xf16>)
      -> tensor<16x32xf16> attributes {stepwell.kernel = {bytes = 1, class = "contraction", flops = 1}} {
    %sum = tensor.empty() : tensor<32x16xf32>
    %zero = arith.constant 0.0 : f32
    %start = linalg.fill ins(%zero : f32) outs(%sum : tensor<32x16xf32>) -> tensor<32x16xf32>
    %product = linalg.generic {
        indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
                         affine_map<(m, n, k) -> (m, n)>],
        iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%x, %w : tensor<32x16xf16>, tensor<16x16xf16>) outs(%start : tensor<32x16xf32>)
        attrs = {stepwell.contraction = 0} {
    ^bb0(%a: f16, %b: f16, %c: f32):
      %0 = arith.extf %a : f16 to f32
      %1 = arith.extf %b : f16 to f32
      %2 = arith.mulf %0, %1 : f32
      %3 = arith.addf %c, %2 : f32
      linalg.yield %3 : f32
    } -> tensor<32x16xf32>
    %rounded = linalg.generic {
        indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n, m)>],
        iterator_types = ["parallel", "parallel"]}
        ins(%product : tensor<32x16xf32>) outs(%out : tensor<16x32xf16>) {
    ^bb0(%a: f32, %b: f16):
      %0 = arith.truncf %a : f32 to f16
      linalg.yield %0 : f16
    } -> tensor<16x32xf16>
    return %rounded : tensor<16x32xf16>
  }

  // CHECK: func.func private @negative_elementwise(
  // CHECK-NOT: cube
  func.func private @negative_elementwise(%x: tensor<32xf16>, %out: tensor<32xf16>)
      -> tensor<32xf16> attributes {stepwell.kernel = {bytes = 1, class = "elementwise", flops = 1}} {
    %0 = linalg.generic {
        indexing_maps = [affine_map<(m) -> (m)>, affine_map<(m) -> (m)>], iterator_types = ["parallel"]}
        ins(%x : tensor<32xf16>) outs(%out : tensor<32xf16>) {
    ^bb0(%a: f16, %b: f16):
      %1 = arith.negf %a : f16
      linalg.yield %1 : f16
    } -> tensor<32xf16>
    return %0 : tensor<32xf16>
  }
}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder in which the package is installed."""
    folder = tmp_path_factory.mktemp("installed")
    source = folder.parent / "sources" / "cube_target"
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__"))
    command = ["pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder)]
    subprocess.run([sys.executable, "-m", *command, str(source)], check=True)
    return folder


def _run(installed: Path | None, folder: Path, *command: str, text: str = "") -> subprocess.CompletedProcess[str]:
    path = {} if installed is None else {"PYTHONPATH": str(installed)}
    environment = {**os.environ, "PATH": PATH, **path, "STEPWELL_CACHE_DIR": str(folder / "cache")}
    return subprocess.run(command, cwd=folder, env=environment, input=text, capture_output=True, text=True, check=False)


def _output(installed: Path, folder: Path, *command: str) -> str:
    done = _run(installed, folder, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("name", "text"), [("cube-pack-weights", PACK), ("cube-emit-streams", KERNEL)])
def test_passes(installed, tmp_path, name, text) -> None:
    (tmp_path / "input.mlir").write_text(text)
    done = _run(installed, tmp_path, "stepwell-opt", "input.mlir", "--split-input-file", f"--{name}")
    checked = _run(None, tmp_path, "FileCheck", "input.mlir", text=done.stdout)
    assert done.returncode == checked.returncode == 0, done.stderr + checked.stderr


@pytest.mark.sweep
def test_a_product_runs_on_the_unit(installed, tmp_path) -> None:
    (tmp_path / "small.mlir").write_text(SMALL)
    code = f"""{NUMBERS}
executable = stepwell.compile("small.mlir", target="cube:v1")
np.testing.assert_allclose(executable(x, w), expected, rtol=2e-3, atol=2e-3)
(unit,) = [item for item in executable.report().kernels if item["device"]]
assert unit["device"]["unit"] == "cube" and unit["schedule"] == "cube"
assert unit["predicted_seconds"] == unit["device"]["cycles"] / 1e9
assert unit["device"]["compute"] == 64 * 96 * 128 / 16**3
executable.save("small.stw")
np.testing.assert_array_equal(stepwell.load("small.stw")(x, w), executable(x, w))
"""
    _output(installed, tmp_path, sys.executable, "-c", code)
    assert "output0" in _output(installed, tmp_path, "stepwell-run", "small.stw")
    contents = _output(installed, tmp_path, "stepwell-inspect", "small.stw", "--json")
    assert json.loads(contents)["programs"][0]["target"]["name"] == "cube:v1+f16"
    assert "contraction" in _output(installed, tmp_path, "stepwell-run", "small.stw", "--profile=profile.json")
    lacking = _run(None, tmp_path, "stepwell-run", "small.stw")
    assert lacking.returncode == 1 and "cube" in lacking.stderr and "Traceback" not in lacking.stderr


@pytest.mark.sweep
@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("left", "right", "result", "attributes"),
    [
        ("3x64x32", "3x32x100", "3x64x100", ""),
        ("3x64x32", "3x100x32", "3x64x100", "{transpose_rhs = true}"),
        ("2x64x32", "32x100", "2x64x100", ""),
        ("3x32x64", "3x32x96", "3x64x96", "{transpose_lhs = true}"),
    ],
)
def test_products_of_batches(installed, tmp_path, left, right, result, attributes) -> None:
    (tmp_path / "batches.mlir").write_text(
        f"""func.func @main(%x: tensor<{left}xf32>, %y: tensor<{right}xf32>) -> tensor<{result}xf32> {{
  %0 = "stepwell.matmul"(%x, %y) {attributes} : (tensor<{left}xf32>, tensor<{right}xf32>) -> tensor<{result}xf32>
  return %0 : tensor<{result}xf32>
}}
"""
    )
    code = f"""
import numpy as np, stepwell
x, y = (np.random.default_rng(0).standard_normal([*map(int, s.split("x"))]).astype(np.float32) for s in {left, right})
executable = stepwell.compile("batches.mlir", target="cube:v1")
a = x.swapaxes(-1, -2) if "transpose_lhs" in "{attributes}" else x
b = y.swapaxes(-1, -2) if "transpose_rhs" in "{attributes}" else y
np.testing.assert_allclose(executable(x, y), a @ b, rtol=0, atol=2e-3 * np.abs(a @ b).max())
print([item["device"] for item in executable.report().kernels if item["device"]][0]["unit"])
"""
    assert _output(installed, tmp_path, sys.executable, "-c", code) == "cube\n"


@pytest.mark.sweep
def test_ranges_of_sizes_and_concurrent_calls(installed, tmp_path) -> None:
    _output(installed, tmp_path, sys.executable, str(SCRIPTS / "ranges.py"))


@pytest.mark.sweep
def test_each_phase_can_be_dumped_and_continued(installed, tmp_path) -> None:
    (tmp_path / "small.mlir").write_text(SMALL)
    compile_it = ("stepwell-compile", "--target=cube:v1", "--quiet")
    _output(installed, tmp_path, *compile_it, "small.mlir", "--dump-phases=levels", "-o", "whole.stw")
    names = [path.stem.partition("-")[2] for path in sorted((tmp_path / "levels").glob("*.mlir"))]
    assert names == ["import", "graph", "kernels", "cube", "tiled", "vector", "memref", "llvm"]
    streams = (tmp_path / "levels" / "3-cube.mlir").read_text()
    assert streams.count("cube.code = [") == 1 and '"multiply 0x' in streams
    _output(installed, tmp_path, *compile_it, "levels/3-cube.mlir", "--compile-from=cube", "-o", "rest.stw")
    code = f"""{NUMBERS}
for name in ("whole.stw", "rest.stw"):
    np.testing.assert_allclose(stepwell.load(name)(x, w), expected, rtol=2e-3, atol=2e-3)
"""
    _output(installed, tmp_path, sys.executable, "-c", code)


def test_quantised_products_are_exact(installed, tmp_path) -> None:
    assert (
        _output(installed, tmp_path, sys.executable, str(SCRIPTS / "quantised.py"))
        == "['contraction', 'convolution']\n"
    )


@pytest.mark.sweep
@pytest.mark.parametrize(("model", "share", "utilisation"), [("ppocr-cls", 0.6, 0.08), ("minilm-1x128", 0.9, 0.75)])
def test_a_real_model_runs_on_the_unit(installed, tmp_path, model, share, utilisation) -> None:
    pytest.importorskip("onnxruntime")
    found = _output(installed, tmp_path, sys.executable, str(SCRIPTS / "real_model.py"), model).split()
    assert float(found[0]) > share and float(found[1]) > utilisation, found


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("cube:v9", "unknown target 'cube:v9'"),
        ("cube:v1+bf16", "the cube unit multiplies f16 and bytes, not bf16"),
    ],
)
def test_a_wrong_name_is_one_message(installed, tmp_path, target, message) -> None:
    (tmp_path / "small.mlir").write_text(SMALL)
    done = _run(installed, tmp_path, "stepwell-compile", "small.mlir", f"--target={target}")
    assert done.returncode != 0 and message in done.stderr and "Traceback" not in done.stderr


def test_errors_of_the_unit_reach_the_caller(installed, tmp_path) -> None:
    (tmp_path / "small.mlir").write_text(SMALL)
    code = f"""{NUMBERS}
from dataclasses import replace
from cube_target.encoding import MAGIC
from cube_target.runtime import CubeLoader, Simulator
from stepwell.support.errors import ArtefactError
executable = stepwell.compile("small.mlir", target="cube:v1")
run = Simulator.run
def fail(self, arguments):
    raise ArithmeticError("the unit is too hot")
Simulator.run = fail
try:
    executable(x, w)
except ArithmeticError as error:
    print(error)
Simulator.run = run
np.testing.assert_allclose(executable(x, w), expected, rtol=2e-3, atol=2e-3)
(program,) = executable.programs
cut = {{name: data[:-1] if bytes(data[:5]) == MAGIC else data for name, data in program.objects.items()}}
try:
    CubeLoader().load(replace(program, objects=cut), lambda array: array, None)
except ArtefactError as error:
    print(str(error).split(": ", 1)[1])
"""
    assert _output(installed, tmp_path, sys.executable, "-c", code) == (
        "the unit is too hot\nnot an instruction stream of the cube unit: it is cut off, or too long\n"
    )
