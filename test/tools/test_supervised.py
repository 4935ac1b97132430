"""Crashes of a whole tool: one message with the location, a reproducer, and exit code 1."""

from __future__ import annotations

import functools
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from onnx import TensorProto, helper
from stepwell.tools import supervisor

PLUGIN = '''"""A pass that aborts, put in the place of those of a phase."""
import os
from dataclasses import dataclass

from stepwell.driver import route
from stepwell.passes.infra.base import Pass, register
from stepwell.passes.infra.pipeline import Pipeline


@register
@dataclass(frozen=True)
class AbortPass(Pass):
    """Abort."""

    name = "test-abort"

    def run(self, op, state) -> None:
        os.abort()


def planted(item):
    pipeline = Pipeline((AbortPass(),))
    return route.Phase(item.name, item.summary, lambda target: pipeline, item.check) if item.name == "tiled" else item


CHANGED = tuple(map(planted, route.phases_of("cpu")))
route.phases_of = lambda target: CHANGED
'''
MODEL = """func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = "stepwell.exp"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("first")
  return %0 : tensor<4x8xf32>
}
"""


def _tool(name: str, folder: Path, *arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    code = f"{before}\nimport sys\nfrom stepwell.tools.{name} import main\nsys.exit(main())"
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "STEPWELL_REPRODUCERS": str(folder / "kept"), "PYTHONPATH": path}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_an_abort_in_a_pass_is_one_message_with_a_reproducer(tmp_path):
    (tmp_path / "abort.py").write_text(PLUGIN)
    (tmp_path / "model.mlir").write_text(MODEL)
    done = _tool("compile", tmp_path, "model.mlir", "--no-cache", before="import abort")
    assert (done.returncode, done.stdout) == (1, "")
    lines = done.stderr.strip().splitlines()
    assert "native code crashed (SIGABRT) in phase 'tiled', pass 'test-abort'" in done.stderr, done.stderr
    assert any(line.split() == ["phase", "tiled,", "pass", "test-abort"] for line in lines)
    shown = next(line for line in lines if "show again" in line).split(maxsplit=2)[2]
    again = subprocess.run(shlex.split(shown), capture_output=True, text=True, check=False)
    assert again.returncode == -signal.SIGABRT
    assert "crashed (SIGABRT) in test-abort" in again.stderr


@pytest.mark.sweep
def test_an_abort_is_one_json_object_if_requested(tmp_path):
    (tmp_path / "abort.py").write_text(PLUGIN)
    (tmp_path / "model.mlir").write_text(MODEL)
    arguments = ("model.mlir", "--no-cache", "--json", "--target=x86-64-v3")
    done = _tool("compile", tmp_path, *arguments, before="import abort")
    record = json.loads(done.stdout)
    assert (record["schema"], record["crash"], record["pass"]) == (1, "SIGABRT", "test-abort")
    assert (record["target"], done.returncode) == ("x86-64-v3", 1)


def test_exit_codes_and_output_pass_through(tmp_path):
    (tmp_path / "model.mlir").write_text(MODEL)
    made = _tool("compile", tmp_path, "model.mlir")
    assert (made.returncode, made.stderr) == (0, "")
    assert "model.stw: " in made.stdout
    assert _tool("run", tmp_path, "absent.stw").returncode == 1
    assert _tool("run", tmp_path, "--nonsense").returncode == 2


def test_an_interrupt_ends_both_with_its_own_code(tmp_path):
    planted = (
        "import os, signal, stepwell.tools.run as tool\n"
        "tool._run = lambda options: os.kill(os.getppid(), signal.SIGINT) or signal.pause()"
    )
    done = _tool("run", tmp_path, "model.stw", before=planted)
    assert (done.returncode, done.stderr) == (130, "stepwell-run: interrupted\n")


@pytest.mark.parametrize(("tool", "inner"), [("run", "_run"), ("opt", "_main")])
def test_a_termination_signal_is_not_a_crash(tool, inner, tmp_path):
    planted = (
        f"import os, signal, stepwell.tools.{tool} as tool\n"
        f"tool.{inner} = lambda *_: os.kill(os.getppid(), signal.SIGTERM) or signal.pause()"
    )
    (tmp_path / "model.mlir").write_text(MODEL)
    done = _tool(tool, tmp_path, "model.mlir", before=planted)
    assert (done.returncode, done.stderr) == (143, f"stepwell-{tool}: terminated\n")


@pytest.mark.sweep
def test_a_signal_is_passed_on_whenever_it_arrives():
    """Also between the last check for signals and the system call that waits for the child."""

    def work(delay: float) -> int:
        end = time.perf_counter() + delay
        while time.perf_counter() < end:
            pass
        os.kill(os.getppid(), signal.SIGTERM)
        time.sleep(60)
        return 0

    for number in range(50):
        assert supervisor.run_child(functools.partial(work, number * 2e-6)) == signal.SIGTERM


@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "code", "said"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")])
def test_a_crash_after_a_termination_signal_is_not_reported(number, code, said, tmp_path):
    """Native code that is interrupted while it is loaded may crash."""
    planted = (
        "import os, signal, time, stepwell.tools.run as tool\n"
        f"def work(_):\n"
        f"    signal.signal(signal.{number}, signal.SIG_IGN)\n"
        f"    os.kill(os.getppid(), signal.{number})\n"
        "    time.sleep(0.5)\n"
        "    os.kill(os.getpid(), signal.SIGSEGV)\n"
        "tool._run = work"
    )
    done = _tool("run", tmp_path, "model.stw", before=planted)
    assert (done.returncode, done.stderr) == (code, f"stepwell-run: {said}\n")


def test_json_is_one_object_either_way(tmp_path):
    (tmp_path / "model.mlir").write_text(MODEL)
    (tmp_path / "bad.mlir").write_text(MODEL.replace('"stepwell.exp"(%x)', "tosa.erf %x"))
    made = _tool("compile", tmp_path, "model.mlir", "--json")
    assert json.loads(made.stdout)["output"] == "model.stw"
    failed = _tool("compile", tmp_path, "bad.mlir", "--json")
    record = json.loads(failed.stdout)
    assert (failed.returncode, record["schema"], record["phase"]) == (1, 1, "memref")


def test_a_crash_is_shown_with_the_phases_before_it(tmp_path: Path) -> None:
    (tmp_path / "abort.py").write_text(PLUGIN)
    (tmp_path / "model.mlir").write_text(MODEL)
    done = _tool("explore", tmp_path, "model.mlir", "-o", "page.html", "--json", before="import abort")
    summary = json.loads(done.stdout)
    assert (done.returncode, summary["error"]) == (1, "native code crashed (SIGABRT)")
    assert (tmp_path / "page.html").stat().st_size == summary["bytes"]
    assert summary["passes"] > 3


SOFTMAX_PLUGIN = """
import os
from dataclasses import dataclass
from stepwell.driver import route
from stepwell.passes.infra.base import Pass, PassError, register
from stepwell.passes.infra.pipeline import Pipeline

@register
@dataclass(frozen=True)
class PlantedPass(Pass):
    name = "test-planted"

    def run(self, op, state) -> None:
        if "softmax" in str(op.get_asm(enable_debug_info=True)):
            {fault}

def planted(item):
    def made(target):
        return Pipeline((PlantedPass(), *item.pipeline(target).elements))
    return route.Phase(item.name, item.summary, made, item.check) if item.name == "tiled" else item

CHANGED = tuple(map(planted, route.phases_of("cpu")))
route.phases_of = lambda target: CHANGED
"""


@pytest.mark.sweep
@pytest.mark.parametrize("fault", ["os.abort()", "raise PassError('planted')"])
def test_a_crash_sends_a_node_to_the_host_as_an_exception_does(fault, tmp_path):
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in "xy"]
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], "turned"),
        helper.make_node("Softmax", ["a"], ["b"], "softmax"),
        helper.make_node("Transpose", ["b"], ["y"], "back"),
    ]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "planted.py").write_text(SOFTMAX_PLUGIN.format(fault=fault))
    done = _tool("compile", tmp_path, "model.onnx", "--no-cache", "--json", before="import planted")
    record = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert [item["node"] for item in record["fallbacks"]] == ["softmax"]
    refused = _tool("compile", tmp_path, "model.onnx", "--no-cache", "--fallback=error", before="import planted")
    assert (refused.returncode, "softmax" in refused.stderr) == (1, True)
    assert "Traceback" not in refused.stderr


GROUP_PLUGIN = """
from dataclasses import dataclass
from mlir import ir
from stepwell.driver import route
from stepwell.passes.infra.base import Pass, register
from stepwell.passes.infra.pipeline import Pipeline

@register
@dataclass(frozen=True)
class PlantedPass(Pass):
    name = "test-planted"

    def run(self, op, state) -> None:
        found = ir.Module.parse("gpu.module @m { gpu.func @f() kernel { gpu.return } }")
        found.body.operations[0].operation.clone(ip=ir.InsertionPoint(op.regions[0].blocks[0]))

def planted(item):
    # MLIR runs those after the first in one pass manager.
    group = ("test-planted", "cse", "canonicalize", "gpu.module(xegpu-subgroup-distribute)", "symbol-dce")
    made = item.pipeline if item.name != "tiled" else lambda target: Pipeline(group)
    return route.Phase(item.name, item.summary, made, item.check)

CHANGED = tuple(map(planted, route.phases_of("cpu")))
route.phases_of = lambda target: CHANGED
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("more", [(), ("--compile-to=tiled",)])
def test_the_first_line_names_the_pass_of_a_group_that_crashed(more, tmp_path):
    (tmp_path / "planted.py").write_text(GROUP_PLUGIN)
    (tmp_path / "model.mlir").write_text(MODEL)
    done = _tool("compile", tmp_path, "model.mlir", "--no-cache", *more, before="import planted")
    first = next(line for line in done.stderr.splitlines() if "error: " in line)
    assert "native code crashed (SIGABRT) in phase 'tiled', pass 'xegpu-subgroup-distribute'" in first
