"""Runs cases one after the other in a child process, which may crash or hang without affecting other cases.

A kernel that accesses memory out of bounds ends all work of its process on the device: later cases get a new process.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_Result = dict[str, Any]
_CLOSING = 5.0
"""Seconds to wait for the remaining output of a process that has ended."""


def python() -> list[str]:
    """Returns the command line of a process for `run.main`, which finds this package as this one did."""
    home = str(Path(__file__).parents[3])
    start = (
        f"import sys; sys.path[:] = {[home, *sys.path]!r}; from stepwell.bench.gpu.run import main; sys.exit(main())"
    )
    return [sys.executable, "-c", start]


def serve(names: Sequence[str], run: Callable[[str], _Result]) -> None:
    """The main loop of the process: prints the begin and the result of each case as a line of JSON."""
    for name in names:
        print(json.dumps({"begin": name}), flush=True)
        print(json.dumps(run(name)), flush=True)


def results(
    command: Callable[[Sequence[str]], Sequence[str]], names: Sequence[str], patience: float, deadline: float
) -> Iterator[_Result]:
    """Yields the results of cases in order, also if processes fail.

    Args:
        command: returns the command of a process that runs some cases.
        names: the names of the cases.
        patience: time limit of a case in seconds.
        deadline: time after which no case is started, by `time.monotonic`.

    Yields:
        The result that a process reported for a case, or the reason why there is none.
    """
    left = list(names)
    while left:
        if time.monotonic() >= deadline:
            yield from ({"name": name, "state": "not run", "reason": "time was up"} for name in left)
            return
        for result in _results_of_process(command(left), left[0], patience, deadline):
            left.remove(result["name"])
            yield result
            if result["state"] == "failed":
                break


def _results_of_process(command: Sequence[str], first: str, patience: float, deadline: float) -> Iterator[_Result]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    lines: queue.Queue[str | None] = queue.Queue()
    reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
    reader.start()
    begun = first
    try:
        while True:
            try:
                line = lines.get(timeout=patience)
            except queue.Empty:
                yield _failed(begun, f"no answer in {patience:.0f} seconds")
                return
            if line is None:
                if process.wait() or begun:
                    yield _failed(begun, f"the process ended with {process.wait()}")
                return
            report = _parsed(line)
            if "begin" in report:
                if time.monotonic() >= deadline:
                    return
                begun = report["begin"]
            elif "state" in report:
                begun = ""
                yield dict(report)
    finally:
        process.kill()
        process.wait()
        reader.join(_CLOSING)


def _read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            lines.put(line)
    lines.put(None)


def _parsed(line: str) -> Mapping[str, Any]:
    """Parses a line of the process; other output of libraries is passed on."""
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    if isinstance(record, dict):
        return record
    print(line, end="", file=sys.stderr)
    return {}


def _failed(name: str, reason: str) -> _Result:
    return {"name": name, "state": "failed", "reason": reason}
