"""Cases in separate processes: one that crashes, hangs or fails does not keep others from running."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import pytest
from stepwell.bench.gpu import sanitize, worker

_SERVER = """
import json, os, sys, time

def say(**record):
    print(json.dumps(record), flush=True)

for name in sys.argv[1:]:
    say(begin=name)
    print("what a library prints", flush=True)
    if name == "crashes":
        os._exit(3)
    if name == "hangs":
        time.sleep(60)
    say(name=name, state="failed" if name == "fails" else "right", reason=str(os.getpid()))
"""


def _command(names: Sequence[str]) -> list[str]:
    return [sys.executable, "-c", _SERVER, *names]


def _results(names: Sequence[str], deadline: float = float("inf")) -> list[dict]:
    return list(worker.results(_command, names, patience=3, deadline=deadline))


@pytest.mark.sweep
def test_every_case_has_a_result_whatever_becomes_of_others() -> None:
    names = ["one", "two", "crashes", "three", "hangs", "fails", "four"]
    found = _results(names)
    assert [result["name"] for result in found] == names
    states = [result["state"] for result in found]
    assert states == ["right", "right", "failed", "right", "failed", "failed", "right"]
    assert found[2]["reason"] == "the process ended with 3"
    assert found[4]["reason"] == "no answer in 3 seconds"
    # After a failure the device may be in a bad state: later cases get a new process.
    assert found[0]["reason"] == found[1]["reason"] and found[5]["reason"] != found[6]["reason"]


def test_a_process_that_cannot_begin_is_reported() -> None:
    def broken(names: Sequence[str]) -> list[str]:
        return [sys.executable, "-c", "import sys; sys.exit(5)"]

    found = list(worker.results(broken, ["one", "two"], patience=30, deadline=float("inf")))
    assert [result["reason"] for result in found] == ["the process ended with 5"] * 2


def test_nothing_begins_when_time_is_up() -> None:
    found = _results(["one", "two"], deadline=time.monotonic() - 1)
    assert [(result["name"], result["state"]) for result in found] == [("one", "not run"), ("two", "not run")]


def test_a_missing_sanitizer_is_reported(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sanitize.check(tmp_path, ["one"]) == 0
    assert capsys.readouterr().out.startswith("skipped: ")
    program = tmp_path / "compute-sanitizer"
    program.write_text('#!/bin/sh\n[ "$2" = racecheck ] && echo "ERROR: a race" && exit 9\nexit 0\n')
    program.chmod(0o755)
    assert sanitize.check(tmp_path, ["one"]) == 1
    told = capsys.readouterr().out
    assert "memcheck: nothing found" in told and "racecheck: exit code 9\nERROR: a race" in told
