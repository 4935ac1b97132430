"""The plugin that runs the tests of other folders for AArch64."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import harness

pytestmark = pytest.mark.skipif(not harness.is_available(), reason=harness.INSTALL)

TESTS = Path(__file__).parent.parent
_SAMPLE = """
import onnx
import numpy as np
import stepwell
from onnx import TensorProto, helper

def test_target():
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 5]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "g", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    run = stepwell.compile(model, options=stepwell.Options(dims={"n": (1, 8)}, cache=False))
    x = np.linspace(-2, 2, 15, dtype=np.float32).reshape(3, 5)
    np.testing.assert_allclose(run(x), np.exp(x), rtol=1e-6)
    assert [program.target.architecture for program in run.programs] == ["aarch64"]
"""


def pytest_on(path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(TESTS), **variables}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "aarch64.emulate", "-p", "no:cacheprovider", str(path)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd=path.parent)


def test_calls_run_under_the_emulator(tmp_path: Path) -> None:
    path = tmp_path / "test_sample.py"
    path.write_text(_SAMPLE)
    done = pytest_on(path)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def test_negative_the_emulator_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "test_sample.py"
    path.write_text(_SAMPLE)
    done = pytest_on(path, PATH=str(tmp_path))
    assert done.returncode != 0
    assert harness.INSTALL in done.stderr
