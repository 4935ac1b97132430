"""Delayed interrupts, and the code that they must not disturb."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest
from stepwell.support.interrupts import held_interrupts


@pytest.fixture(autouse=True)
def _interrupts():
    """As in a terminal: processes started in the background ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_comes_at_the_end():
    def work():
        with held_interrupts():
            signal.raise_signal(signal.SIGINT)
            done.append("all")

    done = []
    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["all"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_an_interrupt_nothing_is_raised():
    with held_interrupts():
        pass


def test_handlers_of_others_are_called():
    seen = []
    before = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        with held_interrupts():
            signal.raise_signal(signal.SIGINT)
            assert seen == []
        assert seen == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_ignored_interrupts_stay_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with held_interrupts():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_threads_are_left_alone():
    def work():
        with held_interrupts():
            held.append(signal.getsignal(signal.SIGINT))

    held = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert held == [signal.default_int_handler]


IMPORT = """
import signal, sys

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "mlir._mlir_libs._mlir":
            signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
try:
    import stepwell.{module}
except KeyboardInterrupt:
    sys.exit("it came after that" if "{extension}" in sys.modules else "it came meanwhile")
"""


@pytest.mark.parametrize(
    ("module", "extension"),
    [
        ("frontend.errors", "mlir.ir"),
        ("frontend.onnx.reading.model", "mlir.ir"),
        ("dialects.stepwell", "mlir.ir"),
        ("tools.opt_tool", "mlir._mlir_libs._mlir"),
    ],
)
def test_the_import_of_mlir_is_not_interrupted(module, extension):
    """In some places of it, an interrupt crashed the process."""
    command = [sys.executable, "-c", IMPORT.format(module=module, extension=extension)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == "it came after that\n"
