"""Kernels compiled separately from their program, in this process and in others: the same code, the same errors."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlir import ir
from stepwell.dialects.registry import load_dialects
from stepwell.driver import route
from stepwell.driver.context import compiler_context
from stepwell.driver.state import state_for
from stepwell.driver.workers import worker
from stepwell.driver.workers.library import KernelCode, compile_library, library_of
from stepwell.driver.workers.pool import KernelPool, kernel_pool
from stepwell.driver.workers.process import SPECULATIVE
from stepwell.driver.workers.shared_queue import SharedQueue
from stepwell.lowering import invariants
from stepwell.passes.infra.runner import PassFailure

pytestmark = pytest.mark.workers

OPS = ("relu", "tanh", "exp", "sigmoid", "sqrt", "abs")
SCRIPT = """
print("started")
import onnx
from onnx import TensorProto, helper
import stepwell

names = [f"t{index}" for index in range(80)]
nodes = [helper.make_node("Tanh" if i % 2 else "Exp", [a], [b]) for i, (a, b) in enumerate(zip(names, names[1:]))]
nodes += [helper.make_node("Softmax", [names[-1]], ["y"])]
ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in ("t0", "y")]
graph = helper.make_graph(nodes, "chain", ports[:1], ports[1:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
stepwell.compile(model, options=stepwell.Options(cache=False))
print("compiled")
"""


@pytest.fixture(autouse=True)
def context() -> Iterator[None]:
    """A compiler's context for every test."""
    with compiler_context() as entered, ir.Location.unknown():
        load_dialects(entered)
        yield


def formed(ops: tuple[str, ...] = OPS) -> ir.Module:
    """Kernels as `stepwell-form-kernels` makes them, one for each op and each row length."""
    gathered = ir.Module.create()
    for number, op in enumerate(ops):
        kind = f"tensor<4x{8 + number}xf32>"
        body = f'%0 = "stepwell.{op}"(%x) : ({kind}) -> {kind}\n return %0 : {kind}'
        module = ir.Module.parse(f"func.func @main(%x: {kind}) -> {kind} {{ {body} }}")
        route.form_kernels_pipeline().run(module)
        (kernel,) = invariants.kernels(module)
        kernel.attributes["sym_name"] = ir.StringAttr.get(f"kernel_{number}")
        kernel.clone(ip=ir.InsertionPoint(gathered.body))
    return gathered


def compiled(pool: KernelPool, module: ir.Module, target: str = "x86-64-v3") -> dict[str, KernelCode]:
    """Returns the code of a module's kernels."""
    return pool.compile(list(invariants.kernels(module)), state_for(target))


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[KernelPool]:
    """A pool of this process and another one."""
    monkeypatch.setattr("stepwell.driver.workers.worker_pool.available_cores", lambda: 2)
    with kernel_pool(2) as pool:
        yield pool


def test_another_process_makes_the_same_code(pool: KernelPool) -> None:
    alone = compiled(KernelPool(), formed())
    assert alone.keys() == {f"kernel_{number}" for number in range(len(OPS))}
    assert compiled(pool, formed()) == alone


def test_another_process_makes_all_that_this_one_leaves(pool: KernelPool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pool.queue is not None
    with monkeypatch.context() as patches:
        patches.setattr(pool.queue, "take", lambda: None)
        patches.setattr(KernelPool, "_compile_here", None)
        assert len(compiled(pool, formed())) == len(OPS)
    assert len(compiled(pool, formed())) == len(OPS)


def test_does_not_wait_for_a_process_that_has_taken_nothing(pool: KernelPool) -> None:
    process = pool.workers[0].process_id
    os.kill(process, signal.SIGSTOP)  # as if it started slowly
    first = compiled(pool, formed())
    assert len(first) == len(OPS)
    assert compiled(pool, formed()) == first
    os.kill(process, signal.SIGCONT)
    assert compiled(pool, formed()) == first


def test_libraries_are_taken_once_and_in_order() -> None:
    queue = SharedQueue()
    for libraries in ([b"first", b"", b"third"], [], [b"other"]):
        queue.fill(libraries)
        assert [queue.take() for _ in libraries] == list(enumerate(libraries))
        assert queue.take() is None
    queue.close()


def test_code_does_not_depend_on_what_else_is_compiled() -> None:
    module = formed()
    together = compiled(KernelPool(), module, "cpu")
    for kernel in list(invariants.kernels(module)):
        assert compile_library(library_of([kernel]), state_for("cpu")).items() <= together.items()


def test_a_failure_elsewhere_is_explained_here(pool: KernelPool) -> None:
    module = formed()
    kernel = list(invariants.kernels(module))[3]
    # The kernel has no op of this class.
    facts = ir.DictAttr(kernel.attributes["stepwell.kernel"])
    changed = {entry.name: entry.attr for entry in facts} | {"class": ir.StringAttr.get("magic")}
    kernel.attributes["stepwell.kernel"] = ir.DictAttr.get(changed)
    with pytest.raises(PassFailure, match="a kernel of class 'magic' must have an op of that class"):
        compiled(pool, module)


def test_a_failure_elsewhere_only_is_logged(
    pool: KernelPool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert pool.queue is not None
    answers = worker.Worker.answers
    monkeypatch.setattr(pool.queue, "take", lambda: None)
    monkeypatch.setattr(
        worker.Worker,
        "answers",
        lambda self: ((index, None if index != SPECULATIVE else code) for index, code in answers(self)),
    )
    assert compiled(pool, formed()) == compiled(KernelPool(), formed())
    assert "a worker failed to compile" in caplog.text and "compiled again" in caplog.text


def test_a_process_that_dies_is_replaced_by_this_one(pool: KernelPool) -> None:
    os.kill(pool.workers[0].process_id, signal.SIGKILL)
    assert len(compiled(pool, formed())) == len(OPS)


@pytest.mark.sweep
def test_a_process_that_dies_at_work_is_replaced_by_this_one(pool: KernelPool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pool.queue is not None
    taken, take = [], pool.queue.take

    def take_for_another():
        # As if the other process had taken the first library and then ended.
        if not taken:
            os.kill(pool.workers[0].process_id, signal.SIGKILL)
            taken.append(take())
        return take()

    monkeypatch.setattr(pool.queue, "take", take_for_another)
    assert len(compiled(pool, formed())) == len(OPS)


def test_no_memory_for_the_queue_leaves_this_process(pool: KernelPool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(libraries: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(pool.queue, "fill", fail)
    assert len(compiled(pool, formed())) == len(OPS)


def test_a_system_without_child_processes_leaves_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with kernel_pool(2) as pool:
        assert not pool.workers
        assert len(compiled(pool, formed())) == len(OPS)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_no_process_outlives_a_compile(error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.driver.workers.worker_pool.available_cores", lambda: 2)
    identities = []

    def fail() -> None:
        with kernel_pool(2) as pool:
            identities.extend(item.process_id for item in pool.workers)
            raise error

    with pytest.raises(error):
        fail()
    (identity,) = identities
    with pytest.raises(ProcessLookupError):
        os.kill(identity, 0)


def test_a_process_ends_with_the_one_that_started_it() -> None:
    program = f"import os\nfrom {worker.__name__} import Worker\nprint(Worker().process_id, flush=True)\nos._exit(1)"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False)
    identity, deadline = int(done.stdout), time.monotonic() + 60
    while _is_running(identity):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _is_running(identity: int) -> bool:
    try:
        status = Path(f"/proc/{identity}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.sweep
def test_a_program_without_a_guard_runs_once(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(SCRIPT)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["started", "compiled"]
    assert not done.stderr
