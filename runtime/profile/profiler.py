"""Profiles a model: runs instrumented code and combines the recordings of its threads.

The recordings cover kernels as threads work on them (recorder.py), and on a GPU the launches of each kernel.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from ...support.errors import OptionError
from ..execution.recorder import CallRecorder, Recording
from .calls import Call, Instance
from .profile import Profile


class Profiled(Protocol):
    """A model that can be profiled: an `Executable`."""

    name: str
    threads: int

    def __call__(self, **inputs: Any) -> Any:
        """Runs the model."""
        ...

    def instrumented(self, recorder: CallRecorder) -> Profiled:
        """Returns the same code, instrumented."""
        ...


def profile(model: Profiled, inputs: Mapping[str, Any], calls: int, warmup: int) -> Profile:
    """Profiles a model; see `Executable.profile`.

    Raises:
        OptionError: `calls` is less than 1, or `warmup` is negative.
    """
    if calls < 1 or warmup < 0:
        raise OptionError(f"calls is {calls} and warmup is {warmup}: they must be at least 1 and 0")
    model(**inputs)  # compiles all code that these inputs need
    recorder = CallRecorder()
    profiled = model.instrumented(recorder)
    for _ in range(warmup + 1):
        profiled(**inputs)
    made = []
    while len(made) < calls:
        recorder.clear()
        start = time.monotonic_ns()
        profiled(**inputs)
        end = time.monotonic_ns()
        recordings = recorder.recordings
        if not all(item.is_whole for item in recordings):
            continue  # the next call has larger buffers
        programs = [(item, instances(item)) for item in recordings]
        nodes = [(item.node, item.op_type, began, ended) for item, began, ended in recorder.nodes]
        made.append(Call(start, end, programs, nodes))
    fastest = sorted(made, key=lambda call: call.end - call.start)[: -(-calls // 2)]
    return Profile(model.name, model.threads, sorted(fastest, key=lambda call: call.start), calls)


def instances(recording: Recording) -> list[Instance]:
    """Returns the calls of kernels in a recording, in order of their start.

    A kernel starts only when the previous one has ended, so its rows are contiguous until all its blocks are done.
    """
    kernels = recording.program.kernels
    open_rows: dict[int, list[Any]] = {}
    complete: list[tuple[int, list[Any]]] = []
    for row in sorted(recording.rows.tolist(), key=lambda row: row[1]):
        index = int(row[0])
        pieces = open_rows.setdefault(index, [])
        pieces.append(row)
        if sum(int(piece[5] - piece[4]) for piece in pieces) == kernels[index].blocks:
            complete.append((index, open_rows.pop(index)))
    counts: dict[int, int] = {}
    for index, _ in complete:
        counts[index] = counts.get(index, 0) + 1
    seen: dict[int, int] = {}
    made = []
    for index, pieces in complete:
        kernel, number = kernels[index], seen.get(index, 0)
        seen[index] = number + 1
        site = number if counts[index] == len(kernel.sites) else None
        start, end = min(int(piece[1]) for piece in pieces), max(int(piece[2]) for piece in pieces)
        made.append(Instance(kernel, site, start, end, pieces))
    return sorted(made, key=lambda item: item.start)
