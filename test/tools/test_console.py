"""The console output of the end-user tools."""

from __future__ import annotations

import io
import sys

import pytest
from onnx import TensorProto, helper, save
from rich.progress import Progress
from stepwell.runtime.progress import progress as compiles
from stepwell.tools import compile as compile_tool
from stepwell.tools import console, explore
from stepwell.tools import run as run_tool


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A model of two kernels, and an empty cache."""
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    nodes = [helper.make_node("Softmax", ["x"], ["a"]), helper.make_node("Transpose", ["a"], ["b"])]
    nodes += [helper.make_node("Softmax", ["b"], ["y"])]
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 6])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [6, 2])]
    graph = helper.make_graph(nodes, "g", ports, outputs)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "model.onnx")
    return "model.onnx"


@pytest.fixture
def events(monkeypatch):
    """The events that the tools' progress bars receive."""
    found = []
    call = console.Compiles.__call__

    def told(self, event):
        found.append(event)
        call(self, event)

    monkeypatch.setattr(console.Compiles, "__call__", told)
    return found


def test_a_bar_shows_phases_and_then_kernels(monkeypatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    bar = Progress(disable=True)
    with (
        compiles.watched_by(console.Compiles(bar)),
        compiles.reporting(None, "m", "x=1", "a test") as reporter,
    ):
        assert not bar.tasks
        reporter.report("phase", step="graph")
        assert (bar.tasks[0].description, bar.tasks[0].total) == ("compiling m at x=1, after graph", None)
        reporter.report("kernels", 3, 7)
        assert (bar.tasks[0].completed, bar.tasks[0].total) == (3, 7)
        assert bar.tasks[0].fields["rest"] == "3/7 kernels"
        assert bar.tasks[0].description == "compiling m at x=1"
    assert not bar.tasks


@pytest.mark.parametrize("tool", [compile_tool, run_tool])
def test_tools_show_how_many_kernels_are_done(tool, model, events, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert tool.main([model]) == 0
    kernels = [(event.done, event.total) for event in events if event.phase == "kernels"]
    assert kernels[0][0] == 0 and kernels[-1][0] == kernels[-1][1] >= 2
    assert "compiling model.onnx" in sys.stderr.getvalue()


def test_explore_shows_phases(model, events, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert explore.main([model, "--no-assembly"]) == 0
    assert "graph" in [event.step for event in events]
    assert "exploring model.onnx" in sys.stderr.getvalue()


@pytest.mark.parametrize("option", ["--quiet", "--json"])
@pytest.mark.parametrize("tool", [compile_tool, run_tool, explore])
def test_no_bar_with_quiet_or_json(tool, option, model, events, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert tool.main([model, option]) == 0
    assert sys.stderr.getvalue() == "" and not events


def test_no_bar_without_a_terminal(model, events, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert compile_tool.main([model]) == 0
    assert sys.stderr.getvalue() == "" and not events
