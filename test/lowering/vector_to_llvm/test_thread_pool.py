"""Thread pools: every block is computed once, however many workers are awake, and results do not depend on that."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from mlir import ir
from stepwell.dialects import discardable
from stepwell.dialects.registry import load_dialects
from stepwell.lowering.llvm_to_object.codegen import emit_objects
from stepwell.lowering.target import Target
from stepwell.lowering.vector_to_llvm.pipelines import llvm_pipeline
from stepwell.passes.infra.pipeline import Pipeline
from stepwell.runtime.native import orc
from stepwell.runtime.native.loader import NativeCode
from stepwell.runtime.native.thread_pool import ThreadPool

ROWS, COLUMNS = 37, 64
# A kernel of three phases: the second needs all of the first, and the last is a single block that reads the results
# of all others. Each block adds to its row, so a row that is computed twice, or not at all, is detected.
MATRIX, ROW, VECTOR = f"memref<{ROWS}x{COLUMNS}xf32>", f"memref<{COLUMNS}xf32>", f"vector<{COLUMNS}xf32>"
TEXT = f"""
func.func private @k(%x: {MATRIX} {{llvm.noalias}}, %y: {MATRIX} {{llvm.noalias}},
                     %z: {ROW} {{llvm.noalias}}) attributes {{stepwell.kernel = {{}}}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %last = arith.constant {ROWS - 1} : index
  %rows = arith.constant {ROWS} : index
  %one = arith.constant dense<1.0> : {VECTOR}
  scf.forall (%i) in ({ROWS}) {{
    %0 = vector.load %x[%i, %c0] : {MATRIX}, {VECTOR}
    %1 = arith.addf %0, %one : {VECTOR}
    vector.store %1, %x[%i, %c0] : {MATRIX}, {VECTOR}
  }}
  scf.forall (%i) in ({ROWS}) {{
    %mirror = arith.subi %last, %i : index
    %0 = vector.load %x[%mirror, %c0] : {MATRIX}, {VECTOR}
    %1 = vector.load %y[%i, %c0] : {MATRIX}, {VECTOR}
    %2 = arith.addf %0, %1 : {VECTOR}
    vector.store %2, %y[%i, %c0] : {MATRIX}, {VECTOR}
  }}
  scf.for %i = %c0 to %rows step %c1 {{
    %0 = vector.load %y[%i, %c0] : {MATRIX}, {VECTOR}
    %1 = vector.load %z[%c0] : {ROW}, {VECTOR}
    %2 = arith.addf %0, %1 : {VECTOR}
    vector.store %2, %z[%c0] : {ROW}, {VECTOR}
  }}
  return
}}
func.func @main(%x: {MATRIX}, %y: {MATRIX}, %z: {ROW}) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  scf.for %i = %c0 to %c5 step %c1 {{
    func.call @k(%x, %y, %z)
      : ({MATRIX}, {MATRIX}, {ROW}) -> ()
  }}
  return
}}
"""

Run = Callable[[np.ndarray, ThreadPool | None], list[np.ndarray]]


@pytest.fixture(scope="module", params=["long", "short"])
def code(request: pytest.FixtureRequest) -> NativeCode:
    """The program above, once waking workers and once leaving them asleep."""
    with ir.Context() as context, ir.Location.unknown():
        load_dialects(context)
        module = ir.Module.parse(TEXT)
        Pipeline(("stepwell-choose-parallel-loops,stepwell-share-out-loops",)).run(module)
        if request.param == "short":
            discardable.IS_SHORT.write(module.operation, True)
        llvm_pipeline("cpu").run(module)
        loaded = orc.load_objects(emit_objects(module, Target.host()))
    return NativeCode(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.address("stepwell_main")), loaded)


@pytest.fixture
def run(code: NativeCode) -> Run:
    """Returns a function that calls the code, and returns x, y and z afterwards."""

    def call(x: np.ndarray, pool: ThreadPool | None) -> list[np.ndarray]:
        arrays = [x.copy(), np.zeros((ROWS, COLUMNS), np.float32), np.zeros(COLUMNS, np.float32)]
        addresses = [array.ctypes.data for array in arrays]
        table = (ctypes.c_void_p * 4)(*addresses, None if pool is None else pool.address)
        code.entry(ctypes.addressof(table))
        return arrays

    return call


def expected(x: np.ndarray) -> list[np.ndarray]:
    """Returns the same arrays, computed by numpy with the same order of additions."""
    x, y, z = x.copy(), np.zeros((ROWS, COLUMNS), np.float32), np.zeros(COLUMNS, np.float32)
    for _ in range(5):
        x += 1
        y += x[::-1]
        for row in y:
            z += row
    return [x, y, z]


def check(run: Run, pool: ThreadPool | None, seed: int = 0) -> None:
    """Compares one call on random numbers with numpy."""
    x = np.random.default_rng(seed).random((ROWS, COLUMNS), np.float32)
    for got, want in zip(run(x, pool), expected(x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_the_calling_thread_needs_no_team(run: Run) -> None:
    check(run, None)


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 50])
def test_any_number_of_threads_does_every_block_once(run: Run, code: NativeCode, threads: int) -> None:
    pool = ThreadPool(threads, code)
    for seed in range(200):
        check(run, pool, seed)


def test_helpers_wake_up_again(run: Run, code: NativeCode) -> None:
    pool = ThreadPool(3, code)
    for seed in range(5):
        check(run, pool, seed)
        time.sleep(0.02)


def sleepers(pool: ThreadPool) -> int:
    """Returns the number of sleeping workers, as the pool's memory records it."""
    return int(pool._memory[384:388].view(np.int32)[0])


def until(holds: Callable[[], bool]) -> None:
    """Waits for a condition; fails after 30 seconds."""
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end


def test_a_short_call_wakes_no_worker_unless_it_is_one_of_many(
    run: Run, code: NativeCode, request: pytest.FixtureRequest
) -> None:
    is_short = request.node.callspec.params["code"] == "short"
    pool = ThreadPool(2, code)
    check(run, pool)
    for _ in range(3):
        until(lambda: sleepers(pool) == 1)
        time.sleep(0.01)
        check(run, pool)
        assert not is_short or sleepers(pool) == 1

    def call_again() -> bool:
        for _ in range(5):
            run(np.zeros((ROWS, COLUMNS), np.float32), pool)
        return sleepers(pool) == 0

    until(call_again)


def test_a_team_without_helpers_is_the_caller_alone(
    run: Run, code: NativeCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("stepwell.runtime.native.thread_pool._thread.start_new_thread", refuse)
    check(run, ThreadPool(4, code))


def test_thread_pools_do_not_mix(run: Run, code: NativeCode) -> None:
    failures = []

    def work(threads: int) -> None:
        pool = ThreadPool(threads, code)
        try:
            for seed in range(100):
                check(run, pool, seed)
        except AssertionError as error:
            failures.append(error)

    callers = [threading.Thread(target=work, args=(threads,)) for threads in (2, 2, 3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not failures
