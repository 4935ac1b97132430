"""The progress bar of slow compiles: where and when it appears, and its contents."""

import io
import sys
import threading
import types
from contextlib import suppress

import pytest
from stepwell.runtime.progress import bar, progress


class Handle:
    """The output of a notebook cell, as `display(..., display_id=True)` returns it."""

    def __init__(self):
        self.shown = []
        self.appeared = threading.Event()
        self.updated = threading.Event()

    def display(self, drawn, display_id):
        assert display_id is True
        self.shown.append(drawn._repr_mimebundle_([], [])["text/plain"])
        self.appeared.set()
        return self

    def update(self, drawn, raw=False):
        self.shown.append(drawn["text/plain"] if raw else drawn._repr_mimebundle_([], [])["text/plain"])
        self.updated.set()


@pytest.fixture
def cell(monkeypatch):
    """A notebook cell: IPython is loaded and has a kernel."""
    handle = Handle()
    shell = types.SimpleNamespace(kernel=object())
    module = types.SimpleNamespace(
        get_ipython=lambda: shell, display=types.SimpleNamespace(display=handle.display), shell=shell
    )
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setattr(bar, "_INTERVAL", 0.01)
    return handle


def terminal(monkeypatch):
    """A standard error stream that claims to be a terminal; made inside a test, because pytest replaces the stream."""
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(bar, "_INTERVAL", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    return stream


def test_a_slow_compile_has_a_bar_in_a_notebook(cell, monkeypatch):
    monkeypatch.setattr(bar, "DELAY", 0.0)
    with progress.reporting(None, "m[0]", "x=1", "a test") as reporter:
        reporter.miss()
        reporter.report("phase", step="graph")
        assert cell.appeared.wait(20)
        reporter.report("kernels", 3, 7)
        cell.updated.clear()
        assert cell.updated.wait(20) and (cell.updated.clear() or cell.updated.wait(20))
    text = "".join(cell.shown)
    assert "compiling m[0] at x=1" in text and "3/7 kernels" in text
    assert cell.shown[-1] == ""
    assert "stepwell progress bar" not in [thread.name for thread in threading.enumerate()]


def test_a_quick_compile_has_none(cell):
    with progress.reporting(None, "m", "", "a test") as reporter:
        reporter.miss()
    assert cell.shown == []


def test_the_bar_disappears_when_a_compile_fails(cell, monkeypatch):
    monkeypatch.setattr(bar, "DELAY", 0.0)
    with suppress(KeyError), progress.reporting(None, "m", "", "a test"):
        assert cell.appeared.wait(20)
        raise KeyError
    assert cell.shown[-1] == ""


def test_false_shows_none(cell, monkeypatch):
    monkeypatch.setattr(bar, "DELAY", 0.0)
    with progress.reporting(False, "m", "", "a test") as reporter:
        assert not reporter.has_listener
    assert cell.shown == []


def test_ipython_in_a_terminal_is_not_a_notebook(cell):
    assert bar.is_notebook()
    del sys.modules["IPython"].shell.kernel
    assert not bar.is_notebook()


def test_a_terminal_has_a_bar_if_it_is_asked_for(monkeypatch):
    stream = terminal(monkeypatch)
    monkeypatch.setattr(bar, "DELAY", 0.0)
    with progress.reporting(None, "m", "", "a test") as reporter:
        assert not reporter.has_listener
    shown = threading.Event()
    update = bar.Terminal.update

    def updated(self):
        update(self)
        shown.set()

    monkeypatch.setattr(bar.Terminal, "update", updated)
    with progress.reporting(True, "m", "x=1", "a test") as reporter:
        reporter.report("kernels", 3, 7)
        assert shown.wait(20)
    text = stream.getvalue()
    assert "compiling m at x=1" in text and "3/7 kernels" in text
    assert text.rstrip().endswith("\x1b[2K")  # the line is erased


def test_a_stream_that_is_not_a_terminal_has_none(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.reporting(True, "m", "", "a test") as reporter:
        assert not reporter.has_listener


def test_ipython_is_not_imported():
    before = "IPython" in sys.modules
    bar.is_notebook()
    assert ("IPython" in sys.modules) == before
