"""Work in a child process: its results, and the message of a crash."""

from __future__ import annotations

import os

import pytest
from stepwell.passes.infra.guarded import Crash, guarded


def test_results_of_the_work_are_returned() -> None:
    data = os.urandom(1 << 20)  # more than a pipe holds
    assert guarded(lambda note: data) == data


def test_an_exception_gives_nothing() -> None:
    assert guarded(lambda note: [][1]) is None


def test_a_crash_reports_the_noted_step_and_the_message() -> None:
    def work(note) -> bytes:
        note("the pass 'x'")
        os.write(2, b"first\nAssertion `y' failed.\n")
        os.abort()

    with pytest.raises(Crash, match=r"crashed \(SIGABRT\) in the pass 'x': Assertion `y' failed\."):
        guarded(work)
