"""Processes and threads that share a cache: each program and each kernel is compiled once, by the first to come."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import stepwell
from onnx import TensorProto, helper
from stepwell.dialects.symbols import symbol_of
from stepwell.driver.caching import locks as compile_locks
from stepwell.driver.caching.locks import KernelTurns, program_lock
from stepwell.driver.workers.pool import KernelPool
from stepwell.passes.infra.state import CompileState
from stepwell.runtime.cache.cache import Cache
from stepwell.support.errors import SlowWarning

X = np.arange(12, dtype=np.float32).reshape(2, 6) - 3

# Logs to standard output. With "stop", the compile halts where kernels would be compiled, with the locks held.
_COMPILE = """
import logging, sys, time, numpy as np, stepwell
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
def listen(event):
    if event.phase == "kernels" and "stop" in sys.argv:
        print("has begun", flush=True)
        time.sleep(600)
options = stepwell.Options(progress=listen, guarded="guarded" in sys.argv)
run = stepwell.compile(sys.argv[1], threads=1, options=options)
x = np.arange(12, dtype=np.float32).reshape(2, 6) - 3
np.testing.assert_allclose(run(x), np.exp(np.maximum(x, 0)), rtol=1e-5)
"""


def model_of(name: str = "r") -> bytes:
    """A chain of two nodes on rows of six; `name` is the value between them."""
    nodes = [helper.make_node("Relu", ["x"], [name]), helper.make_node("Exp", [name], ["y"])]
    values = [helper.make_tensor_value_info(value, TensorProto.FLOAT, ["n", 6]) for value in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an empty cache, with a model beside it."""
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "model.onnx").write_bytes(model_of())
    return tmp_path / "cache"


@contextlib.contextmanager
def started(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that compiles and calls the model."""
    command = [sys.executable, "-Werror::UserWarning", "-c", _COMPILE, str(folder.parent / "model.onnx"), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    """Kills a process together with a child that compiles for it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def lines_until(process: subprocess.Popen[str], text: str) -> list[str]:
    """Returns the lines that a process prints, up to one that contains `text`."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"'{text}' is not in {lines}")


def test_one_of_four_processes_compiles(folder: Path) -> None:
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(started(folder)) for _ in range(4)]
        texts = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    told = "".join(texts)
    assert (told.count(": compiled in"), told.count(": from the cache in")) == (1, 3)
    assert not list((folder / "locks").iterdir())


@pytest.mark.few(1)
@pytest.mark.parametrize("arguments", [(), ("guarded",)], ids=["direct", "guarded"])
def test_another_process_finishes_when_the_owner_is_killed(folder: Path, arguments: Sequence[str]) -> None:
    with started(folder, "stop", *arguments) as owner:
        lines_until(owner, "has begun")
        with started(folder, *arguments) as other:
            lines_until(other, "waiting for another process")
            kill(owner)
            told = other.communicate(timeout=300)[0]
    assert other.returncode == 0 and ": compiled in" in told
    assert not Cache(folder).verify()


@pytest.mark.parametrize("dims", [{}, {"n": (1, 4)}], ids=["shapes", "ranges"])
def test_one_of_four_threads_compiles(folder: Path, caplog: pytest.LogCaptureFixture, dims: dict) -> None:
    caplog.set_level(logging.INFO, "stepwell")

    def work(_: int) -> np.ndarray:
        return np.asarray(stepwell.compile(model_of(), threads=1, options=stepwell.Options(dims=dims))(X))

    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(work, range(4)):
            np.testing.assert_allclose(got, np.exp(np.maximum(X, 0)), rtol=1e-5)
    assert (caplog.text.count(": compiled in"), caplog.text.count(": from the cache in")) == (1, 3)


def test_kernels_that_models_share_are_compiled_once(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "stepwell")
    compiled: list[str] = []
    compile_kernels = KernelPool.compile

    def counted(self: KernelPool, kernels: Sequence, state: CompileState) -> dict:
        compiled.extend(map(symbol_of, kernels))
        return compile_kernels(self, kernels, state)

    monkeypatch.setattr(KernelPool, "compile", counted)
    has_begun, may_end = threading.Event(), threading.Event()

    def listen(event: stepwell.Progress) -> None:
        if event.phase == "kernels":
            has_begun.set()
            assert may_end.wait(60)

    with ThreadPoolExecutor(2) as pool:
        options = stepwell.Options(progress=listen)
        owner = pool.submit(lambda: stepwell.compile(model_of("r"), threads=1, options=options)(X))
        assert has_begun.wait(60)
        other = pool.submit(lambda: stepwell.compile(model_of("other"), threads=1)(X))
        while "waiting for another process that compiles the same kernels" not in caplog.text:
            assert not other.done()
            time.sleep(0.01)
        may_end.set()
        for got in (owner.result(60), other.result(60)):
            np.testing.assert_allclose(np.asarray(got), np.exp(np.maximum(X, 0)), rtol=1e-5)
    assert compiled and len(compiled) == len(set(compiled))
    assert caplog.text.count(": compiled in") == 2


def test_a_folder_that_cannot_be_locked_compiles(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "stepwell")
    folder.mkdir()
    (folder / "locks").touch()
    np.testing.assert_allclose(stepwell.compile(model_of(), threads=1)(X), np.exp(np.maximum(X, 0)), rtol=1e-5)
    assert "cannot be locked" in caplog.text and ": compiled in" in caplog.text
    stepwell.compile(model_of(), threads=1)(X)
    assert ": from the cache in" in caplog.text


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to any folder")
def test_a_read_only_cache_compiles(folder: Path) -> None:
    folder.mkdir(mode=0o555)
    with pytest.warns(SlowWarning, match="Permission denied"):
        got = stepwell.compile(model_of(), threads=1)(X)
    np.testing.assert_allclose(got, np.exp(np.maximum(X, 0)), rtol=1e-5)


def test_a_compile_in_a_callback_of_a_compile_does_not_wait_for_itself(folder: Path) -> None:
    events: list[str] = []

    def listen(event: stepwell.Progress) -> None:
        events.append(event.phase)
        if event.phase == "kernels" and events.count("kernels") == 1:
            inner.append(stepwell.compile(model_of("inner"), threads=1)(X))

    inner: list = []
    outer = stepwell.compile(model_of(), threads=1, options=stepwell.Options(progress=listen))(X)
    np.testing.assert_array_equal(np.asarray(inner[0]), np.asarray(outer))


def test_a_lock_that_is_never_freed_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache, waits = Cache(tmp_path), []
    has_program, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        turns = KernelTurns(cache, {"ab": "ab"}, lambda: None)
        with program_lock(cache, "key", lambda: None), turns.turn():
            has_program.set()
            assert may_end.wait(60)

    monkeypatch.setattr(compile_locks, "LIMIT_SECONDS", 0.2)
    thread = threading.Thread(target=hold)
    thread.start()
    assert has_program.wait(60)
    with program_lock(cache, "key", lambda: waits.append("program")):
        turns = KernelTurns(cache, {"ab": "ab", "cd": "cd"}, lambda: waits.append("kernels"))
        with turns.turn() as names:
            assert names == {"cd"} and turns.left == ["ab"]
        with turns.turn() as names:
            assert names == {"ab"} and not turns.left
    may_end.set()
    thread.join()
    assert waits == ["program", "kernels"] and caplog.text.count("is locked for") == 1
    assert not list((tmp_path / "locks").iterdir())


def test_locks_are_not_entries_and_are_dropped_when_abandoned(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("kernels", "ab12", b"code")
    with program_lock(cache, "key", lambda: None):
        (left,) = (tmp_path / "locks").iterdir()
        assert [entry.key for entry in cache.entries()] == ["ab12"]
        assert cache.clear() == 1 and left.exists()
    assert not left.exists()
    left.touch()
    os.utime(left, (0, 0))
    assert cache.clear() == 0 and not left.exists()
