"""A candidate that crashes, fails or hangs costs only its time."""

from __future__ import annotations

import os
import signal
import time

from stepwell.support.errors import StepwellError
from stepwell.tuning.children import TrialFailure, each, values_of


def test_failures_of_items_leave_the_others() -> None:
    def work(item: str):
        if item == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if item == "error":
            raise StepwellError("it is not legal")
        if item == "exit":
            os._exit(3)
        if item == "hang":
            time.sleep(60)
        return item.upper()

    items = ["a", "crash", "b", "error", "exit", "c", "hang", "d"]
    found = dict(each(items, work, processes=2, seconds=1.0))
    assert {items[number]: result for number, result in found.items()} == {
        "a": "A",
        "crash": TrialFailure("crashed: SIGSEGV"),
        "b": "B",
        "error": TrialFailure("it is not legal"),
        "exit": TrialFailure("ended with exit code 3"),
        "c": "C",
        "hang": TrialFailure("no result within 1 s"),
        "d": "D",
    }


def test_values_before_a_crash_arrive() -> None:
    def work(send) -> None:
        send(1)
        send(2)
        os.kill(os.getpid(), signal.SIGKILL)

    assert list(values_of(work, 5.0)) == [1, 2, TrialFailure("crashed: SIGKILL")]
    assert list(values_of(lambda send: send("only"), 5.0)) == ["only"]
