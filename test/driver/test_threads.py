"""Compiles in several threads: each has a state of its own."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import stepwell
from stepwell.passes.infra.instrumentation import Instrumentation
from stepwell.passes.infra.state import CompileState
from stepwell.runtime.program import Program

MODEL = """func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {{
  %0 = "stepwell.neg"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("{0}.first")
  %1 = "stepwell.{1}"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("{0}.second")
  %2 = "stepwell.relu"(%1) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("{0}.third")
  %3 = "stepwell.relu"(%2) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("{0}.fourth")
  return %3 : tensor<4x8xf32>
}}
"""
ROUNDS = 40
"""Number of phases that each thread enters: enough for the threads to overlap."""


class _InStep(Instrumentation):
    """Makes two compiles take turns: each pass waits for one of the other compile, as long as that runs."""

    def __init__(self, barrier: threading.Barrier) -> None:
        self._barrier = barrier

    def before_pass(self, step, op) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):  # the other compile has ended
            self._barrier.wait(timeout=20)


def _compiled(path: Path, barrier: threading.Barrier) -> Program:
    options = stepwell.Options(cache=False, instrumentation=(_InStep(barrier),))
    try:
        (program,) = stepwell.compile(str(path), options=options).programs
    finally:
        barrier.abort()
    return program


def test_remarks_of_compiles_in_two_threads_do_not_mix(tmp_path: Path) -> None:
    paths = []
    for name, op in (("a", "exp"), ("b", "tanh")):
        paths.append(tmp_path / f"{name}.mlir")
        paths[-1].write_text(MODEL.format(name, op))
    alone = [_compiled(path, threading.Barrier(1)).compile_facts.remarks for path in paths]
    barrier = threading.Barrier(2)
    with ThreadPoolExecutor(2) as threads:
        together = list(threads.map(lambda path: _compiled(path, barrier), paths))
    assert [program.compile_facts.remarks for program in together] == alone
    for name, remarks in zip("ab", alone, strict=True):
        assert remarks
        assert all(node.startswith(f"{name}.") for remark in remarks for node in remark.nodes)


def test_phases_in_two_threads_do_not_mix() -> None:
    barrier = threading.Barrier(2)

    def enter(name: str) -> list[str]:
        state, seen = CompileState(), []
        for number in range(ROUNDS):
            with state.in_phase(f"{name}{number}"):
                barrier.wait(timeout=20)
                seen.append(state.phase)
                barrier.wait(timeout=20)
        assert state.phase == ""
        return seen

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(enter, "ab"))
    assert found == [[f"{name}{number}" for number in range(ROUNDS)] for name in "ab"]


def test_an_error_gets_the_phase_of_its_own_compile() -> None:
    state, other = CompileState(), CompileState()
    with other.in_phase("tiled"), pytest.raises(stepwell.CompileError) as caught, state.in_phase("graph"):
        raise stepwell.CompileError("no")
    assert caught.value.phase == "graph"
