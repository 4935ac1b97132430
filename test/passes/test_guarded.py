"""Work in a process of its own: what comes back, and what is said of a crash."""

from __future__ import annotations

import os

import pytest
from stepwell.passes.guarded import Crash, guarded


def test_what_work_gives_comes_back() -> None:
    data = os.urandom(1 << 20)  # more than a pipe holds
    assert guarded(lambda note: data) == data


def test_an_exception_gives_nothing() -> None:
    assert guarded(lambda note: [][1]) is None


def test_a_crash_says_what_it_was_at_and_what_was_told() -> None:
    def work(note) -> bytes:
        note("the pass 'x'")
        os.write(2, b"first\nAssertion `y' failed.\n")
        os.abort()

    with pytest.raises(Crash, match=r"crashed \(SIGABRT\) in the pass 'x': Assertion `y' failed\."):
        guarded(work)
