"""Distributions: contents of wheels and source distributions, and builds without warnings."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import Distribution
from pathlib import Path

import onnx
import pytest
import stepwell
from onnx import TensorProto, helper

ROOT = Path(__file__).parent.parent
# Warnings of setuptools are UserWarnings, which newer versions of pip show.
BUILD = """
import sys
sys.path.insert(0, "distribution")
import backend
print(getattr(backend, sys.argv[1])(sys.argv[2]))
"""


def build(source: Path, kind: str, target: Path) -> Path:
    """Builds a distribution of a checkout, and returns its file."""
    target.mkdir(exist_ok=True)
    command = [sys.executable, "-W", "error::UserWarning", "-c", BUILD, f"build_{kind}", str(target)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    return target / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A source distribution of the checkout, its unpacked folder, and the wheel built from that folder."""
    folder = tmp_path_factory.mktemp("distributions")
    unwanted = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "Output")
    shutil.copytree(ROOT, folder / "checkout", ignore=unwanted)
    shutil.copytree(ROOT / ".ci", folder / "checkout" / ".ci")
    shutil.copy(ROOT / ".gitignore", folder / "checkout")
    sdist = build(folder / "checkout", "sdist", folder / "sdist")
    shutil.unpack_archive(sdist, folder)
    source = folder / sdist.name.removesuffix(".tar.gz")
    return {"source": source, "wheel": build(source, "wheel", folder / "wheel"), "checkout": folder / "checkout"}


def files(folder: Path) -> set[str]:
    found = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return {str(path) for path in found if not {"build", "stepwell.egg-info"} & set(path.parts)}


@pytest.mark.sweep
def test_a_source_distribution_is_a_checkout(built: dict[str, Path]) -> None:
    assert files(built["source"]) - {"PKG-INFO", "setup.cfg"} == files(built["checkout"])


def test_a_wheel_holds_the_package_and_nothing_else(built: dict[str, Path]) -> None:
    outside = ("distribution", "docs", "examples", "test", ".ci")
    modules = {name for name in files(built["source"]) if name.endswith(".py") and not name.startswith(outside)}
    data = {
        name
        for name in files(built["source"])
        if name.startswith(("explain/explore/", "serve/assets/")) or name == "py.typed"
    }
    data |= {name for name in files(built["source"]) if name.startswith("passes/") and name.endswith(".json")}
    assert {"LICENSE.d3", "LICENSE.dagre", "LICENSE.highlight"} <= {Path(name).name for name in data}
    with zipfile.ZipFile(built["wheel"]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == {f"stepwell/{name}" for name in modules | data} | {"stepwell-drop-in.pth"}


def test_the_record_of_a_wheel_is_right(built: dict[str, Path], tmp_path: Path) -> None:
    with zipfile.ZipFile(built["wheel"]) as wheel:
        wheel.extractall(tmp_path)
        names = set(wheel.namelist())
    recorded = Distribution.at(next(tmp_path.glob("*.dist-info"))).files or []
    assert {str(path) for path in recorded} == names
    for path in recorded:
        contents = path.read_binary()
        digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()
        assert path.name == "RECORD" or (path.hash and path.hash.value, path.size) == (digest, len(contents)), path


def test_an_editable_install_has_the_start_hook(built: dict[str, Path], tmp_path: Path) -> None:
    with zipfile.ZipFile(build(built["checkout"], "editable", tmp_path)) as wheel:
        hook = wheel.read("stepwell-drop-in.pth").decode()
    assert hook == (ROOT / "distribution" / "stepwell-drop-in.pth").read_text(encoding="utf-8")
    assert hook.count("\n") == 1 and hook.startswith("import ")


RUNTIME_ONLY = """
import sys
sys.path.insert(0, sys.argv[1])
sys.modules.update(dict.fromkeys(("mlir", "llvm", "onnx", "matplotlib", "filelock")))
import numpy as np
import stepwell
from stepwell.tools import inspect, run
assert stepwell.__file__.startswith(sys.argv[1]), stepwell.__file__
model = stepwell.load("model.stw")
np.testing.assert_array_equal(model(np.float32([[-1, 2]])), [[0, 2]])
assert run.main(["model.stw", "--input", "x=1x2xf32:random"]) == 0
assert run.main(["model.onnx"]) == 1
assert inspect.main(["model.stw"]) == 0
try:
    stepwell.compile("model.onnx")
except stepwell.StepwellError as error:
    assert "stepwell-runtime" in str(error) and "pip install ." in str(error), error
else:
    raise AssertionError("it compiles")
"""


def test_both_distributions_describe_themselves() -> None:
    tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    main, runtime = (
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for folder in (".", "distribution/runtime")
    )
    assert runtime["authors"] == main["authors"] and runtime["requires-python"] == main["requires-python"]
    assert set(main["classifiers"]) - set(runtime["classifiers"]) == {"Topic :: Software Development :: Compilers"}
    assert set(runtime["classifiers"]) <= set(main["classifiers"])


def test_the_runtime_needs_no_compiler(built: dict[str, Path], tmp_path: Path) -> None:
    build_runtime = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
    folder = built["source"] / "distribution" / "runtime"
    command = [sys.executable, "-c", build_runtime, str(tmp_path)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / done.stdout.splitlines()[-1]) as wheel:
        wheel.extractall(tmp_path / "site")
    distribution = Distribution.at(next((tmp_path / "site").glob("*.dist-info")))
    assert distribution.name == "stepwell-runtime" and distribution.version == stepwell.__version__
    needed = [text for text in distribution.requires or [] if "extra ==" not in text and "sys_platform" not in text]
    assert {text.partition(">")[0] for text in needed} == {"numpy", "ml_dtypes", "platformdirs", "rich"}
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "example", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "model.onnx")
    stepwell.compile(model).save(tmp_path / "model.stw")
    command = [sys.executable, "-c", RUNTIME_ONLY, str(tmp_path / "site")]
    environment = {**os.environ, "STEPWELL_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
