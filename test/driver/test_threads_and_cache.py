"""Many callers at once, in threads and processes, and killed compiles: results are right and the cache stays valid."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import stepwell
from onnx import TensorProto, helper
from stepwell.runtime.cache.cache import Cache

_COMPILE = """
import sys, numpy as np, stepwell
run = stepwell.compile(sys.argv[1], threads=1)
for rows in (1, 2):
    x = np.arange(rows * 6, dtype=np.float32).reshape(rows, 6) - 3
    np.testing.assert_allclose(run(x), np.exp(np.maximum(x, 0)), rtol=1e-5)
"""


def model_of(*nodes: tuple[str, str, str, dict]) -> bytes:
    """A chain of nodes on rows of six."""
    made = [helper.make_node(op, [source], [target], **more) for op, source, target, more in nodes]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 6]) for name in "xy"]
    graph = helper.make_graph(made, "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


NATIVE = model_of(("Relu", "x", "r", {}), ("Exp", "r", "y", {}))
ON_HOST = model_of(
    ("Relu", "x", "r", {}),
    ("Cast", "r", "s", {"to": TensorProto.STRING}),
    ("Cast", "s", "t", {"to": TensorProto.FLOAT}),
    ("Exp", "t", "y", {}),
)


@pytest.mark.filterwarnings("ignore:.*is compiled during the call:stepwell.support.errors.SlowWarning")
@pytest.mark.parametrize(("model", "calls"), [(NATIVE, 1000), (ON_HOST, 100)], ids=["native", "on the host"])
def test_eight_threads_call_one_executable(model: bytes, calls: int) -> None:
    executable = stepwell.compile(model, threads=1, options=stepwell.Options(fallback="quiet"))
    failures: list[object] = []

    def work(seed: int) -> None:
        try:
            for index in range(calls):
                x = np.full((1 + (index + seed) % 3, 6), seed - 3 + index % 4, np.float32)
                got = executable(x)
                if not np.allclose(np.asarray(got), np.exp(np.maximum(x, 0)), rtol=1e-5):
                    failures.append((seed, index))
        except Exception as error:  # the thread would lose it
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a model, and an empty cache."""
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "model.onnx"
    path.write_bytes(NATIVE)
    return path


def start(model: Path) -> subprocess.Popen:
    """Starts another process that compiles and calls the model."""
    return subprocess.Popen([sys.executable, "-Werror::UserWarning", "-c", _COMPILE, str(model)])


def test_processes_compile_into_one_cache_at_once(model: Path, tmp_path: Path) -> None:
    assert [process.wait(300) for process in [start(model), start(model)]] == [0, 0]
    assert not Cache(tmp_path / "cache").verify()


@pytest.mark.sweep
def test_a_compile_that_is_killed_leaves_the_cache_sound(model: Path, tmp_path: Path) -> None:
    for seconds in (0.3, 0.7, 1.1):
        process = start(model)
        time.sleep(seconds)
        process.kill()
        process.wait()
        assert not Cache(tmp_path / "cache").verify()
    assert start(model).wait(300) == 0


@pytest.mark.sweep
def test_damaged_entries_are_dropped_and_made_again(model: Path, tmp_path: Path) -> None:
    assert start(model).wait(300) == 0
    cache = Cache(tmp_path / "cache")
    entries = list(cache.entries())
    for entry in entries:
        data = bytearray(entry.path.read_bytes())
        data[-1] ^= 1
        entry.path.write_bytes(data)
    assert start(model).wait(300) == 0
    assert not cache.verify()
    assert {entry.key for entry in entries} == {entry.key for entry in cache.entries()}
