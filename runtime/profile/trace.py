"""Profiles in Chrome's trace event format, for Perfetto and chrome://tracing.

Uses complete events ("X"), with a track per thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..devices.cpu_estimates import peak_of
from ..devices.peaks import Peaks
from ..program import Program
from .calls import Call, Instance

_MAX_EVENTS = 50_000
"""Maximum number of events, unless the first call alone has more: a choice that viewers handle quickly."""


def trace_events(name: str, calls: Sequence[Call], pid: int, peaks: Peaks | None) -> list[dict[str, Any]]:
    """Returns the events of the first calls, up to a number that viewers handle quickly.

    Args:
        name: the model's name.
        calls: calls in order of time.
        pid: process id.
        peaks: the machine's peaks, if known.
    """
    threads = _threads(calls)
    events = [_named("process_name", pid, 0, f"stepwell: {name}")]
    events += [_named("thread_name", pid, number, _title(number)) for number in range(len(threads) or 1)]
    origin = calls[0].start if calls else 0
    for number, call in enumerate(calls):
        made = list(_of_call(number, call, threads, pid, origin, peaks))
        if number and len(events) + len(made) > _MAX_EVENTS:
            break
        events += made
    return events


def _threads(calls: Sequence[Call]) -> dict[int, int]:
    """Returns the track of each thread, the calling thread first."""
    found: dict[int, int] = {}
    for call in calls:
        for recording, _ in call.programs:
            found.setdefault(recording.thread, len(found))
    for call in calls:
        for _, instances in call.programs:
            for instance in instances:
                for piece in instance.pieces:
                    found.setdefault(int(piece[3]), len(found))
    return found


def _of_call(
    number: int, call: Call, threads: dict[int, int], pid: int, origin: int, peaks: Peaks | None
) -> Iterator[dict[str, Any]]:
    yield _event(f"call {number}", "call", pid, 0, call.start - origin, call.end - call.start, {})
    for node, operator, start, end in call.nodes:
        yield _event(f"{operator} on the host", "host", pid, 0, start - origin, end - start, {"node": node})
    for recording, instances in call.programs:
        yield _event("program", "program", pid, 0, recording.start - origin, recording.end - recording.start, {})
        for instance in instances:
            for piece in instance.pieces:
                start, took = int(piece[1]) - origin, int(piece[2] - piece[1])
                arguments = _arguments(instance, piece, recording.program, peaks)
                yield _event(_kernel_title(instance), "kernel", pid, threads[int(piece[3])], start, took, arguments)


def _kernel_title(instance: Instance) -> str:
    """Returns the node that does most of a kernel's work, and the kernel's class: 'conv1 (convolution)'."""
    sites = instance.kernel.sites
    site = sites[instance.site or 0] if sites else ()
    return f"{site[0][0]} ({instance.kernel.kind})" if site else instance.kernel.kind


def _arguments(instance: Instance, piece: Sequence[int], program: Program, peaks: Peaks | None) -> dict[str, Any]:
    kernel = instance.kernel
    seconds = max(instance.end - instance.start, 1) / 1e9
    nodes = (
        kernel.sites[instance.site] if instance.site is not None else [node for site in kernel.sites for node in site]
    )
    found: dict[str, Any] = {"kernel": kernel.name, "nodes": list(dict.fromkeys(name for name, _ in nodes))}
    if kernel.blocks:
        found["blocks"] = f"{piece[4]} to {piece[5]} of {kernel.blocks}"
    if program.bounds is not None:  # for a range of sizes, the work is known only at the upper bounds
        return found
    found |= {"flops": kernel.flops, "bytes": kernel.bytes}
    if peaks is not None:
        found["roofline"] = peaks.seconds(kernel.flops / peak_of(program, kernel), kernel.bytes) / seconds
    return found | {"GFLOP/s": kernel.flops / seconds / 1e9, "GB/s": kernel.bytes / seconds / 1e9}


def _event(
    name: str, category: str, pid: int, tid: int, start: int, took: int, arguments: dict[str, Any]
) -> dict[str, Any]:
    times = {"ts": start / 1e3, "dur": took / 1e3}
    return {"name": name, "cat": category, "ph": "X", "pid": pid, "tid": tid, **times, "args": arguments}


def _named(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}


def _title(number: int) -> str:
    return f"worker {number}" if number else "calling thread"
