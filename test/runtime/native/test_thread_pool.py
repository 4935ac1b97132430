"""The thread pools of a process: lent to one call at a time, kept for the next, not inherited by fork."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from stepwell.runtime.compiled_model import CompiledModel
from stepwell.runtime.executable import Executable
from stepwell.runtime.native import loader, thread_pool

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def pool(monkeypatch) -> thread_pool.ThreadPools:
    fresh = thread_pool.ThreadPools()
    monkeypatch.setattr("stepwell.runtime.execution.workspace.THREAD_POOLS", fresh)
    return fresh


def test_a_thread_pool_goes_from_call_to_call_and_from_model_to_model(pool, program) -> None:
    code = loader.load(program())
    first, second = pool.lend(2, code), pool.lend(2, code)
    assert first is not second
    pool.take_back(2, first)
    assert pool.lend(2, loader.load(program(3, 4))) is first
    assert pool.lend(3, code) not in (first, second)


def test_one_thread_needs_no_thread_pool(pool, program, monkeypatch) -> None:
    monkeypatch.setattr(pool, "lend", None)
    made = program()
    Executable(CompiledModel(made.inputs, made.outputs, [made]), threads=1)(X)


def test_calls_one_after_the_other_share_a_thread_pool(pool, program) -> None:
    made, other = program(), program(2, 3)
    for item in (made, other, made):
        assert int(Executable(CompiledModel(item.inputs, item.outputs, [item]), threads=3)(X)[1]) == 3
    assert [len(pools) for pools in pool._idle.values()] == [1]


def test_calls_at_once_have_a_thread_pool_each(pool, program) -> None:
    made = program()
    executable = Executable(CompiledModel(made.inputs, made.outputs, [made]), threads=2)
    wrong = []

    def work() -> None:
        for _ in range(200):
            y, threads = executable(X)
            if int(threads) != 2 or not np.array_equal(y, X * np.arange(6).reshape(2, 3) + 0.5):
                wrong.append(y)

    callers = [threading.Thread(target=work) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong
    assert 1 <= len(pool._idle[2]) <= 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_fork_the_child_has_teams_of_its_own(tmp_path) -> None:
    # In a separate process, because pytest's has threads.
    code = f"""
import os
import numpy as np
import onnx
import stepwell
from onnx import TensorProto, helper

ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [512, 512]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"], name="exp")], "g", ports[:1], ports[1:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
onnx.save(model, "{tmp_path}/model.onnx")
run = stepwell.compile("{tmp_path}/model.onnx", threads=3)
x = np.random.default_rng(0).random((512, 512), np.float32)
want = run(x)
child = os.fork()
if child == 0:
    same = all(np.array_equal(run(x), want) for _ in range(20))
    os._exit(0 if same else 1)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0
assert np.array_equal(run(x), want)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
