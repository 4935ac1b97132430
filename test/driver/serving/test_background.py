"""Compiles in the background: calls never wait for them, and failures lose nothing but speed."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper
from stepwell.driver.serving import background
from stepwell.driver.serving.background import BACKGROUND, CompilerCall
from stepwell.runtime.specialization.adaptive import HOT_CALLS

WEIGHT = np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32)
pytestmark = pytest.mark.filterwarnings("ignore:.*is compiled during the call:stepwell.support.errors.SlowWarning")


def model() -> onnx.ModelProto:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["y"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 5])
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(WEIGHT, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(run: stepwell.Executable, count: int) -> None:
    """Compares a call with the values."""
    x = np.random.default_rng(count).standard_normal((count, 8)).astype(np.float32)
    exponents = np.exp((x @ WEIGHT).astype(np.float64))
    np.testing.assert_allclose(run(x), exponents / exponents.sum(1, keepdims=True), rtol=1e-4)


def served(run: stepwell.Executable) -> list[str]:
    return [program.serves for program in run.programs]


def wait_for(condition: Callable[[], bool]) -> None:
    """Waits until the background has done its work."""
    end = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; children take part in a busy machine like other tests."""
    monkeypatch.setattr(background, "_NICENESS", 0)
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.few(1)
@pytest.mark.parametrize("cached", [True, False])
def test_ranges_and_hot_sizes_come_from_the_background(
    cache: Path, caplog: pytest.LogCaptureFixture, cached: bool
) -> None:
    run = stepwell.compile(model(), options={"adapt": True, "cache": cached})
    check(run, 3)
    with caplog.at_level(logging.INFO, "stepwell"):
        check(run, 5)
        wait_for(lambda: len(run.programs) == 3)
    assert served(run) == ["x=3x8", "x=5x8", "rows 1 to 32"]
    range_record = run.program_records[2]
    assert range_record.why == "dimension 'rows' was 3 and 5"
    assert range_record.compile_seconds > 0
    assert [line for line in caplog.messages if "compiled in the background" in line]
    for count in (7, 8, 32):
        check(run, count)
    assert len(run.programs) == 3
    for _ in range(HOT_CALLS - 1):
        check(run, 7)
    wait_for(lambda: len(run.programs) == 4)
    assert served(run)[3] == "x=7x8"
    before = [record.calls for record in run.program_records]
    check(run, 7)
    check(run, 8)
    after = [record.calls for record in run.program_records]
    assert [new - old for old, new in zip(before, after, strict=True)] == [0, 0, 1, 1]
    assert run.program_records[3].why == f"{HOT_CALLS} calls at this size"


@pytest.mark.sweep
def test_the_least_recently_used_hot_size_goes_first(cache: Path) -> None:
    run = stepwell.compile(model(), options={"adapt": True, "max_programs": 2})
    check(run, 3)
    check(run, 5)
    wait_for(lambda: "rows 1 to 32" in served(run))
    for count in (7, 8, 9):
        for _ in range(HOT_CALLS + 1):
            check(run, count)
        wait_for(lambda size=f"x={count}x8": size in served(run))
        assert len(run.programs) <= 3
    assert set(served(run)) == {"rows 1 to 32", "x=8x8", "x=9x8"}
    for count in (3, 5, 7, 8, 9):
        check(run, count)
    assert set(served(run)) == {"rows 1 to 32", "x=8x8", "x=9x8"}


@pytest.mark.sweep
def test_calls_do_not_wait(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()
    in_child = background._in_child

    def slow(*arguments: object) -> str:
        assert may_end.wait(60)
        return in_child(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(background, "_in_child", slow)
    run = stepwell.compile(model(), options={"adapt": True})
    for count in (3, 5, 7, 9):
        check(run, count)
    assert served(run) == ["x=3x8", "x=5x8", "x=7x8", "x=9x8"]
    may_end.set()
    wait_for(lambda: "rows 1 to 32" in served(run))


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (CompilerCall("missing", ()), "AttributeError"),
        (CompilerCall("__class__", ()), "TypeError"),
    ],
)
def test_a_child_that_fails_is_logged(
    cache: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, work: CompilerCall, said: str
) -> None:
    submit = BACKGROUND.submit
    monkeypatch.setattr(BACKGROUND, "submit", lambda request: submit(background.replace(request, work=work)))
    run = stepwell.compile(model(), options={"adapt": True})
    check(run, 3)
    check(run, 5)
    wait_for(lambda: any("a compile in the background failed" in line for line in caplog.messages))
    (line,) = [line for line in caplog.messages if "background" in line]
    assert said in line
    check(run, 7)
    wait_for(lambda: run.explain().startswith("each size is compiled separately"))
    assert said in run.explain()
    assert served(run) == ["x=3x8", "x=5x8", "x=7x8"]


def test_a_killed_child_is_logged(
    cache: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = subprocess.Popen

    def started(*arguments: object, **more: object) -> subprocess.Popen:
        child = start(*arguments, **more)  # type: ignore[call-overload]
        child.send_signal(signal.SIGKILL)
        return child

    monkeypatch.setattr(background.subprocess, "Popen", started)
    run = stepwell.compile(model(), options={"adapt": True})
    check(run, 3)
    check(run, 5)
    wait_for(lambda: any("the process ended with status -9" in line for line in caplog.messages))
    monkeypatch.undo()
    check(run, 7)


_EXITS = """
import os, sys, time, numpy as np, stepwell
run = stepwell.compile(sys.argv[1], options={"adapt": True})
for count in (3, 5):
    run(np.ones((count, 8), np.float32))
def children_of(task):
    try:
        return open(f"/proc/self/task/{task}/children").read().split()
    except FileNotFoundError:  # the thread has ended
        return []
children = []
while not children:
    children = [child for task in os.listdir("/proc/self/task") for child in children_of(task)]
print(*children)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="lists processes in /proc")
def test_children_end_with_the_process(cache: Path) -> None:
    path = cache / "model.onnx"
    path.write_bytes(model().SerializeToString())
    done = subprocess.run([sys.executable, "-c", _EXITS, str(path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    children = [int(child) for child in done.stdout.split()]
    assert children
    wait_for(lambda: not any(_is_running(child) for child in children))


def _is_running(process: int) -> bool:
    try:
        return "background" in Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return False


def _in_fork(run: stepwell.Executable) -> int:
    check(run, 11)
    check(run, 40)
    wait_for(lambda: "rows 1 to 128" in served(run) or "rows 1 to 64" in served(run))
    return len(run.programs)


@pytest.mark.sweep
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_a_background_of_its_own(cache: Path) -> None:
    run = stepwell.compile(model(), threads=1, options={"adapt": True})
    check(run, 3)
    check(run, 5)
    wait_for(lambda: "rows 1 to 32" in served(run))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(_in_fork, [run, run]) == [5, 5]


def test_without_ranges_there_is_nothing_to_adapt() -> None:
    with pytest.raises(stepwell.OptionError, match="adapt cannot be combined with ranges=False"):
        stepwell.Options(adapt=True, ranges=False)


def test_threads_call_while_programs_come_and_go(cache: Path) -> None:
    run = stepwell.compile(model(), threads=1, options={"adapt": True, "max_programs": 2})
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for count in np.random.default_rng(seed).integers(1, 12, 400).tolist():
                check(run, count)
        except BaseException as error:  # the thread would lose it
            failures.append(error)

    check(run, 3)
    check(run, 5)
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(run.programs) <= 4
