"""ONNX's backend interface, and ONNX's own tests of backends on it.

`python test/compat/onnx_backend/suite.py NAME` runs single ones of these. The lists beside this file name the cases
that fail, and those that pass only with ops on the host; both lists are checked in both directions.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper
from stepwell.compat import onnx_backend as backend

HERE = Path(__file__).parent
SHARDS = 16
EXPANDED = "_expanded"
"""Part of the names of cases whose ops are replaced by simpler ones, each of which has cases of its own."""
needs_onnx_123 = pytest.mark.skipif(not version("onnx").startswith("1.23."), reason="the lists are of ONNX 1.23")


def _load_suite() -> Any:
    spec = importlib.util.spec_from_file_location("backend_suite", HERE / "suite.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


suite = _load_suite()


class Server:
    """Another process that holds the cases, which take seconds to make: one for each test process."""

    def __init__(self, cache: Path) -> None:
        command = [sys.executable, "-W", "ignore", str(HERE / "suite.py"), "--serve"]
        # numpy must not start threads: the server forks.
        environment = {**os.environ, "STEPWELL_CACHE_DIR": str(cache), "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.names: list[str] = self._answer()

    def run(self, names: Sequence[str]) -> list[Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(names) + "\n")
        self._process.stdin.flush()
        return [suite.Outcome(**record) for record in self._answer()]

    def close(self) -> None:
        self._process.communicate()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    base = tmp_path_factory.getbasetemp()
    # Many cases have kernels in common: all test processes share one cache, which is deleted afterwards.
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    started = Server(shared / "backend-kernels")
    yield started
    started.close()


@needs_onnx_123
@pytest.mark.few(1)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_onnx_cases_end_as_listed(server: Server, shard: int) -> None:
    check_shard(server, [name for name in server.names if EXPANDED not in name], shard)


@needs_onnx_123
@pytest.mark.sweep
@pytest.mark.parametrize("shard", range(SHARDS))
def test_expanded_cases_end_as_listed(server: Server, shard: int) -> None:
    check_shard(server, [name for name in server.names if EXPANDED in name], shard)


def check_shard(server: Server, names: Sequence[str], shard: int) -> None:
    found = suite.unexpected(server.run(names[shard::SHARDS]))  # some cases of every operator
    assert not found, "\n".join(["not as listed:", *found])


@needs_onnx_123
def test_lists_name_cases(server: Server) -> None:
    names = set(server.names)
    assert len(names) == 2024
    for path in (suite.EXPECTED, suite.ON_HOST):
        assert not set(suite.read_list(path)) - names
    failing, on_host = set(suite.read_list(suite.EXPECTED)), set(suite.read_list(suite.ON_HOST))
    assert not failing & on_host
    passing = len(names) - len(failing)
    assert passing >= 1900
    assert len(on_host) <= 0.15 * passing, "too many pass only with the host's help"


def test_a_case_that_ends_its_process_has_failed() -> None:
    def refuse() -> None:
        raise ValueError("two\nlines")

    cases = {"a": refuse, "b": lambda: None, "c": os.abort, "d": lambda: time.sleep(60), "e": lambda: os._exit(3)}
    cases["f"] = lambda: None
    outcomes = list(suite.Suite(cases, seconds=1).run(list(cases)))
    assert [outcome.name for outcome in outcomes] == list(cases)
    assert [outcome.failure for outcome in outcomes] == [
        "ValueError: two\nlines",
        "",
        "ends the process with SIGABRT",
        "takes longer than 1 seconds",
        "ends the process with exit code 3",
        "",
    ]


def test_lists_are_held_in_both_directions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "EXPECTED", tmp_path / "expected.txt")
    monkeypatch.setattr(suite, "ON_HOST", tmp_path / "on_host.txt")
    suite.EXPECTED.write_text("# Group\n\nmended: was wrong: once\nbroken: is wrong\nlucky: random numbers\n")
    suite.ON_HOST.write_text("# Those\nstill\nnative\n")
    outcomes = [
        suite.Outcome("mended"),
        suite.Outcome("broken", "Error: any"),
        suite.Outcome("new", "Error: x\n y"),
        suite.Outcome("lucky", on_host=True),
        suite.Outcome("still", on_host=True),
        suite.Outcome("native"),
        suite.Outcome("host", on_host=True),
        suite.Outcome("fine"),
    ]
    assert [line.split()[:2] for line in suite.unexpected(outcomes)] == [
        ["mended", "passes:"],
        ["new", "fails:"],
        ["native", "runs"],
        ["host", "runs"],
    ]
    suite.update(outcomes)
    assert suite.unexpected(outcomes) == []
    listed = suite.EXPECTED.read_text()
    assert listed == f"# Group\n\nbroken: is wrong\nlucky: random numbers\n\n{suite.UNSORTED}\nnew: Error: x y\n"
    assert suite.ON_HOST.read_text() == "# Those\nstill\nhost\n"


def softmax() -> onnx.ModelProto:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"])], "test", ports[:1], ports[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_prepared_models_run_by_position_by_name_and_on_one_array() -> None:
    prepared = backend.prepare(softmax(), "CPU", threads=1)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    want = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    for inputs in ([x], (x,), {"x": x}, x):
        outputs = prepared.run(inputs)
        np.testing.assert_allclose(outputs.y, want, rtol=1e-6)
        assert outputs["y"] is outputs[0] and len(outputs) == 1
    (got,) = backend.run_model(softmax(), [x])
    np.testing.assert_array_equal(got, prepared.run([x])[0])
    assert prepared.executable.threads == 1


def test_nodes_run_alone() -> None:
    a, b = np.float32([1, 2]), np.float32([3, 4])
    (total,) = backend.run_node(helper.make_node("Add", ["a", "b"], ["c"]), [a, b])
    np.testing.assert_array_equal(total, a + b)
    (twice,) = backend.run_node(helper.make_node("Add", ["a", "a"], ["c"]), [a, a])
    np.testing.assert_array_equal(twice, a + a)
    (clipped,) = backend.run_node(helper.make_node("Clip", ["a", "", "m"], ["c"]), [a, None, np.float32(1.5)])
    np.testing.assert_array_equal(clipped, np.float32([1, 1.5]))
    node = helper.make_node("FusedMatMul", ["a", "b"], ["c"], domain="com.microsoft", alpha=2.0)
    (product,) = backend.run_node(node, [a[None], b[:, None]], outputs_info=[(np.dtype(np.float32), (1, 1))])
    np.testing.assert_array_equal(product, [[22]])
    shape = helper.make_node("Reshape", ["a", "b"], ["c"], allowzero=0)
    with pytest.raises(stepwell.ModelError, match="allowzero"):
        backend.run_node(shape, [a, np.array([2])], opset_version=13)


def test_devices_other_than_the_cpu_are_refused() -> None:
    assert backend.supports_device("CPU") and backend.supports_device("CPU:0")
    assert not backend.supports_device("CUDA") and not backend.supports_device("CUDA:1")
    assert not backend.supports_device("TOASTER")
    assert backend.is_compatible(softmax()) and not backend.is_compatible(softmax(), "CUDA")
    with pytest.raises(ValueError, match="not on 'CUDA'"):
        backend.prepare(softmax(), "CUDA")
