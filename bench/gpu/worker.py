"""Cases one after the other in a process of its own, which may crash or hang without taking others along.

A kernel that leaves its buffers ends all work of its process on the device: the cases behind it get another process.
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

Result = dict[str, Any]
_CLOSING = 5.0
"""Seconds for what a process has said to be read, when it is gone."""


def python() -> list[str]:
    """How another process begins that runs `run.main`, which finds this package where this one did."""
    home = str(Path(__file__).parents[3])
    start = (
        f"import sys; sys.path[:] = {[home, *sys.path]!r}; from stepwell.bench.gpu.run import main; sys.exit(main())"
    )
    return [sys.executable, "-c", start]


def serve(names: Sequence[str], run: Callable[[str], Result]) -> None:
    """What the process does: says which case it begins and what came of it, a line of JSON each."""
    for name in names:
        print(json.dumps({"begin": name}), flush=True)
        print(json.dumps(run(name)), flush=True)


def results(
    command: Callable[[Sequence[str]], Sequence[str]], names: Sequence[str], patience: float, deadline: float
) -> Iterator[Result]:
    """The results of cases, in order, whatever becomes of processes.

    Args:
        command: starts a process that serves some cases.
        names: of the cases.
        patience: how many seconds a case may take.
        deadline: until when to begin cases, by `time.monotonic`.

    Yields:
        What a process said of a case, or why it said nothing; of cases that there was no time for, that.
    """
    left = list(names)
    while left:
        if time.monotonic() >= deadline:
            yield from ({"name": name, "state": "not run", "reason": "time was up"} for name in left)
            return
        for result in _of_one_process(command(left), left[0], patience, deadline):
            left.remove(result["name"])
            yield result
            if result["state"] == "failed":
                break


def _of_one_process(command: Sequence[str], first: str, patience: float, deadline: float) -> Iterator[Result]:
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
            said = _parsed(line)
            if "begin" in said:
                if time.monotonic() >= deadline:
                    return
                begun = said["begin"]
            elif "state" in said:
                begun = ""
                yield dict(said)
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
    """What a line says; whatever else libraries print is passed on."""
    try:
        said = json.loads(line)
    except ValueError:
        said = None
    if isinstance(said, dict):
        return said
    print(line, end="", file=sys.stderr)
    return {}


def _failed(name: str, reason: str) -> Result:
    return {"name": name, "state": "failed", "reason": reason}
