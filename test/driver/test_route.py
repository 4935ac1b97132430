"""One list of passes: every way to compile a model executes the same ones, in the same order."""

from __future__ import annotations

import contextlib
import io
import re
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from queue import SimpleQueue

import pytest
import stepwell
from mlir import ir
from stepwell.dialects.registry import load_dialects
from stepwell.driver import route
from stepwell.driver.context import compiler_context
from stepwell.driver.state import state_for
from stepwell.driver.workers import worker
from stepwell.driver.workers.library import library_of
from stepwell.explain.bisect.native import SUBSTITUTES
from stepwell.lowering import invariants
from stepwell.passes.infra.elements import print_element
from stepwell.passes.infra.pipeline import Pipeline
from stepwell.passes.infra.progress_note import SharedNote
from stepwell.passes.infra.runner import PipelineRunner
from stepwell.tools import bisect, opt_tool

MODEL = """func.func @main(%x: tensor<?x8xf32> {stepwell.dims = ["n", 8]}, %w: tensor<8x6xf32>) -> tensor<?x6xf32> {
  %0 = "stepwell.matmul"(%x, %w) : (tensor<?x8xf32>, tensor<8x6xf32>) -> tensor<?x6xf32> loc("product")
  %1 = "stepwell.softmax"(%0) {axis = 1 : i64} : (tensor<?x6xf32>) -> tensor<?x6xf32> loc("shares")
  return %1 : tensor<?x6xf32>
}
"""
STATIC = MODEL.replace("?", "4").replace(' {stepwell.dims = ["n", 8]}', "")
BIND = "stepwell-specialize-shapes{shapes={4x8,8x6}}"
Executed = Callable[[Callable[[], object]], list[str]]


@pytest.fixture
def executed(monkeypatch) -> Executed:
    """Returns the passes that a function runs, each once, in the order of their first runs."""
    found: list[str] = []
    run_python, run_upstream = PipelineRunner._run_python, PipelineRunner._run_upstream

    def python(self, instance, op):
        found.append(print_element(instance))
        return run_python(self, instance, op)

    def upstream(self, elements, op):
        found.extend(f"{op.name}({element})" for element in elements)
        return run_upstream(self, elements, op)

    monkeypatch.setattr(PipelineRunner, "_run_python", python)
    monkeypatch.setattr(PipelineRunner, "_run_upstream", upstream)

    def record(work: Callable[[], object]) -> list[str]:
        found.clear()
        with contextlib.redirect_stdout(io.StringIO()):
            work()
        return list(dict.fromkeys(found))

    return record


def _compile(path, **options) -> Callable[[], object]:
    options = {"cache": False, "shapes": {"input0": (4, 8), "input1": (8, 6)}, **options}
    return lambda: stepwell.compile(str(path), options=stepwell.Options(**options))


def test_every_way_to_compile_runs_the_same_passes(executed, tmp_path):
    path, static = tmp_path / "model.mlir", tmp_path / "static.mlir"
    path.write_text(MODEL)
    static.write_text(STATIC)
    plain = executed(_compile(path))
    assert plain[0] == BIND
    landmarks = ("stepwell-fuse-composites", "stepwell-evaluate-init", "stepwell-form-kernels", "stepwell-vectorize")
    places = [next(place for place, name in enumerate(plain) if name.startswith(each)) for each in landmarks]
    assert places == sorted(places)

    instrumented = executed(_compile(path, reached=lambda *_: None))
    assert instrumented == plain

    opt = executed(lambda: opt_tool.run("opt", [str(static), "--compile-to=llvm", "-o", "/dev/null"], SharedNote()))
    assert [BIND, *opt] == plain

    _check_bisected(executed(lambda: bisect.main([str(path), "--shape", "input0=4x8"])), plain)

    parallel = executed(lambda: _compile_in_worker(static))
    assert [BIND, *parallel] == plain


def _compile_in_worker(path: Path) -> None:
    """Compiles the kernels of a model as worker processes do, from the bytes of a library that a worker receives."""
    with compiler_context() as context, ir.Location.unknown():
        load_dialects(context)
        module, state = ir.Module.parseFile(str(path)), state_for("cpu")
        route.run(module, state, stop="graph")
        route.form_kernels_pipeline().run(module, state=state)
        library = str(library_of(invariants.kernels(module))).encode()
        with socket.socket() as unused:
            assert worker._Server(unused, SimpleQueue())._compiled(library, "cpu") is not None


def _check_bisected(bisected: list[str], plain: list[str]) -> None:
    """Checks that a bisection runs the passes of a plain compile, then these one by one, or simpler ones instead."""
    simple = _names(str(element) for texts in SUBSTITUTES.values() for element in Pipeline(texts).elements)
    assert [name for name in bisected if name in plain] == plain
    assert _names(bisected[len(plain) :]) <= simple | _names(plain)


def _names(elements: Iterable[str]) -> set[str]:
    """The names of the passes in elements such as `builtin.module(func.func(cse{option=1},canonicalize))`."""
    return {name for text in elements for name in re.findall(r"[\w-]+(?=[,)]|$)", re.sub(r"\{.*?\}", "", text))}


@pytest.mark.sweep
def test_a_compile_for_a_gpu_runs_the_passes_of_its_route(executed, tmp_path, monkeypatch):
    path = tmp_path / "static.mlir"
    path.write_text(STATIC)

    def compile_for_gpu(**options) -> Callable[[], object]:
        settings = stepwell.Options(cache=False, shapes={"input0": (4, 8), "input1": (8, 6)}, **options)
        return lambda: stepwell.compile(str(path), target="cuda:sm_80", options=settings)

    plain = executed(compile_for_gpu())
    arguments = [str(path), "--compile-to=nvvm", "--target=cuda:sm_80", "-o", "/dev/null"]
    assert [BIND, *executed(lambda: opt_tool.run("opt", arguments, SharedNote()))] == plain
    assert executed(compile_for_gpu(reached=lambda *_: None)) == plain

    monkeypatch.setenv("STEPWELL_CUDA", "simulate")
    _check_bisected(executed(lambda: bisect.main([str(path), "--target=cuda:sm_80"])), plain)
