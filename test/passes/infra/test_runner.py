"""Running pipelines: order, nesting, failures, and the events that instrumentation receives."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from mlir import ir
from mlir.passmanager import PassManager
from stepwell.passes.infra.base import Pass, PassError
from stepwell.passes.infra.elements import Nested
from stepwell.passes.infra.instrumentation import Instrumentation, PassStep, PrintIR, always
from stepwell.passes.infra.pipeline import Pipeline
from stepwell.passes.infra.runner import PassFailure
from stepwell.passes.infra.state import CompileState
from stepwell.passes.infra.timing import Timing

TEXT = """
func.func @f(%a: i32) -> i32 {
  %0 = arith.addi %a, %a : i32
  %1 = arith.addi %a, %a : i32
  %2 = arith.muli %0, %1 : i32
  return %2 : i32
}
func.func @g(%a: i32) -> i32 {
  return %a : i32
}
"""


@dataclass(frozen=True)
class NotePass(Pass):
    """Note that it was here."""

    name = "test-note"
    anchor = "func.func"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        op.attributes["seen"] = ir.UnitAttr.get()


@dataclass(frozen=True)
class FailPass(Pass):
    """Fail in the requested way."""

    name = "test-fail"
    way: str = "error"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        if self.way == "error":
            raise PassError("no way", ir.Location.file("model.mlir", 3, 4))
        if self.way == "bug":
            raise KeyError("oops")
        function = op.regions[0].blocks[0].operations[0]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([], []))


class Recorder(Instrumentation):
    """Records the events."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def before_pass(self, step: PassStep, op: ir.Operation) -> None:
        self.events.append(f"before {step.name} {op.name}")

    def after_pass(self, step: PassStep, op: ir.Operation) -> None:
        self.events.append(f"after {step.name} {op.name}")

    def after_pass_failed(self, step: PassStep, op: ir.Operation) -> None:
        self.events.append(f"failed {step.name} {op.name}")


@pytest.fixture
def module(context: ir.Context) -> ir.Module:
    return ir.Module.parse(TEXT)


def test_python_and_upstream_passes_run_in_order(module: ir.Module) -> None:
    Pipeline((Nested("func.func", ("cse", NotePass())), "symbol-privatize", "canonicalize")).run(module)
    text = str(module)
    assert text.count("arith.addi") == 1
    assert text.count("attributes {seen}") == 2
    assert text.count("func.func private") == 2


def test_instrumentation_receives_every_pass_on_every_op(module: ir.Module) -> None:
    recorder = Recorder()
    Pipeline((Nested("func.func", ("cse", NotePass())), "symbol-dce")).run(module, [recorder])
    on_function = [f"{when} {name} func.func" for name in ("cse", "test-note") for when in ("before", "after")]
    assert recorder.events == [*on_function * 2, "before symbol-dce builtin.module", "after symbol-dce builtin.module"]


def test_instrumentation_receives_the_passes_of_upstream_pipelines(module: ir.Module) -> None:
    recorder = Recorder()
    Pipeline(("buffer-deallocation-pipeline",)).run(module, [recorder])
    assert "after ownership-based-buffer-deallocation builtin.module" in recorder.events


@pytest.mark.parametrize(
    ("element", "message"),
    [
        (FailPass(), "pass 'test-fail' failed: no way"),
        (FailPass("bug"), r"pass 'test-fail' failed: KeyError: 'oops' \(this is a bug in the pass\)"),
        (FailPass("invalid"), r"pass 'test-fail' failed: it left invalid IR: .*\(this is a bug in the pass\)"),
        ("affine-loop-unroll", "pass 'affine-loop-unroll' failed: .*unable to schedule"),
    ],
)
def test_a_failure_names_pass_and_reason(module: ir.Module, element: Pass | str, message: str) -> None:
    recorder = Recorder()
    with pytest.raises(PassFailure, match=message) as caught:
        Pipeline(("cse", element)).run(module, [recorder])
    assert recorder.events[-1].startswith("failed ")
    assert caught.value.pass_name in ("test-fail", "affine-loop-unroll")


def test_a_run_without_instrumentation_names_the_failed_pass_too(context: ir.Context) -> None:
    module = ir.Module.parse("""
      func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
        %0 = "stepwell.exp"(%x) : (tensor<2xf32>) -> tensor<2xf32>
        return %0 : tensor<2xf32>
      }""")
    with pytest.raises(PassFailure, match=r"pass 'one-shot-bufferize' failed: .*op was not bufferized") as caught:
        Pipeline(("cse,one-shot-bufferize,canonicalize",)).run(module)
    assert caught.value.pass_name == "one-shot-bufferize"


def test_the_rules_of_the_dialect_are_verified(context: ir.Context) -> None:
    module = ir.Module.parse("""
      func.func @f(%x: tensor<2xf32>) -> tensor<3xf32> {
        %0 = "stepwell.exp"(%x) : (tensor<2xf32>) -> tensor<3xf32>
        return %0 : tensor<3xf32>
      }""")
    with pytest.raises(PassFailure, match=r"pass 'cse' failed: it left invalid IR: 'stepwell.exp' op"):
        Pipeline(("cse",)).run(module)
    Pipeline(("cse",)).run(module, verify=False)


def test_the_error_of_a_pass_has_its_location(module: ir.Module) -> None:
    with pytest.raises(PassFailure) as caught:
        Pipeline((FailPass(),)).run(module)
    assert str(caught.value.location) == 'loc("model.mlir":3:4)'


def test_dump_tree_is_that_of_mlir(module: ir.Module, tmp_path: Path) -> None:
    text = "builtin.module(func.func(cse,canonicalize),cse,func.func(cse))"
    manager = PassManager.parse(text)
    manager.enable_ir_printing(print_before_all=True, tree_printing_dir_path=str(tmp_path / "mlir"))
    manager.run(ir.Module.parse(TEXT).operation)
    Pipeline.parse(text).run(module, [PrintIR(before=always, folder=tmp_path / "ours")])
    assert _tree(tmp_path / "ours") == _tree(tmp_path / "mlir")


def _tree(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.mlir")}


def test_timing_sums_up_over_functions(module: ir.Module) -> None:
    timing = Timing()
    Pipeline((Nested("func.func", ("cse", NotePass())), "cse")).run(module, [timing])
    names = re.findall(r"^ +[0-9.]+ \( *[0-9.]+%\)  (.*)", timing.report(), re.MULTILINE)
    assert names == ["'func.func' Pipeline", "  CSE", "  NotePass", "CSE", "Rest", "Total"]
    assert timing.report(as_list=True).count("CSE") == 1
