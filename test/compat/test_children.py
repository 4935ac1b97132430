"""Child processes of a program run on the drop-in if the program does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

HERE = "stepwell.compat.onnxruntime"

# The main module imports onnxruntime only in its workers, as pools of readers do.
WORKER = """
import multiprocessing, os, subprocess, sys

def run(index):
    import onnxruntime
    session = onnxruntime.InferenceSession("model.onnx")
    (y,) = session.run(None, {"x": [[float(index)]]})
    return onnxruntime.__name__, float(y[0, 0])
"""
MULTIPROCESSING = """
if __name__ == "__main__":
    import stepwell.compat.onnxruntime as drop_in
    drop_in.install()
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        print(pool.map(run, [3]))
"""
JOBLIB = """
if __name__ == "__main__":
    import joblib
    print(joblib.Parallel(n_jobs=2)([joblib.delayed(run)(3)]))
"""
# A server imports the program, opens a session and runs it, then forks its workers.
PRE_FORK = """
import onnxruntime
session = onnxruntime.InferenceSession("model.onnx")
session.run(None, {"x": [[1.0]]})
for index in range(2):
    if os.fork() == 0:
        (y,) = session.run(None, {"x": [[3.0]]})
        assert run(3) == (onnxruntime.__name__, 6.0)
        print([(onnxruntime.__name__, float(y[0, 0]))], flush=True)
        os._exit(0)
    assert os.wait()[1] == 0
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a model that doubles a number."""
    port = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "twice", port[:1], port[1:])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "model.onnx"
    )
    return tmp_path


def said(folder: Path, *command: str, **variables: str) -> str:
    """Returns what a Python program prints, with variables added to the environment."""
    environment = {key: value for key, value in os.environ.items() if key != "STEPWELL_DROP_IN"} | variables
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_multiprocessing(folder: Path, method: str) -> None:
    (folder / "program.py").write_text(WORKER + MULTIPROCESSING)
    assert said(folder, "program.py", method) == f"[('{HERE}', 6.0)]\n"


@pytest.mark.sweep
def test_processes_of_joblib_in_a_program_that_says_nothing(folder: Path) -> None:
    (folder / "program.py").write_text(WORKER + JOBLIB)
    assert said(folder, "program.py", STEPWELL_DROP_IN="onnxruntime") == f"[('{HERE}', 6.0)]\n"
    assert said(folder, "-m", HERE, "program.py") == f"[('{HERE}', 6.0)]\n"


def test_workers_that_a_server_forks(folder: Path) -> None:
    (folder / "program.py").write_text(WORKER + PRE_FORK)
    assert said(folder, "program.py", STEPWELL_DROP_IN="1") == f"[('{HERE}', 6.0)]\n" * 2


def test_processes_of_subprocess(folder: Path) -> None:
    child = "import onnxruntime; print(onnxruntime.__name__)"
    start = "import stepwell.compat.onnxruntime as here, subprocess, sys; here.install({}); "
    start += f"subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    assert said(folder, "-c", start.format("")) == f"{HERE}\n"
    pytest.importorskip("onnxruntime")
    assert said(folder, "-c", start.format("children=False")) == "onnxruntime\n"


def test_nothing_is_imported_before_onnxruntime_is(folder: Path) -> None:
    loaded = "import sys; print(sorted({'numpy', 'onnx', 'stepwell', 'stepwell.compat.start'} & set(sys.modules)))"
    assert said(folder, "-c", loaded) == said(folder, "-c", loaded, STEPWELL_DROP_IN="0") == "[]\n"
    assert said(folder, "-c", loaded, STEPWELL_DROP_IN="1") == "['stepwell', 'stepwell.compat.start']\n"


def test_modules_and_versions_are_found_before_the_import(folder: Path) -> None:
    code = """
import importlib.metadata, importlib.util, sys
assert importlib.util.find_spec("onnxruntime") and importlib.metadata.version("onnxruntime")
assert importlib.util.find_spec("no_such_module") is None
import onnxruntime.capi.onnxruntime_pybind11_state as state
import onnxruntime
print(onnxruntime.__name__, onnxruntime.__spec__.name, state.NoSuchFile.__module__)
"""
    assert said(folder, "-c", code, STEPWELL_DROP_IN="onnxruntime") == f"{HERE} {HERE} {HERE}.errors\n"


def test_other_values_are_reported(folder: Path) -> None:
    told = said(folder, "-c", "pass", STEPWELL_DROP_IN="torch")
    assert "STEPWELL_DROP_IN is 'torch', expected 'onnxruntime'" in told
