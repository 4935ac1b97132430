"""How many cores this process may use: those it is bound to, and no more than its container's quota of time."""

from __future__ import annotations

import functools
import math
import os
from pathlib import Path, PurePosixPath

_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")


def available_cores() -> int:
    """How many cores this process may use.

    More threads than that would be stopped in turns by the kernel, each while others wait for it.
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(max(1, min(bound, _quota())))


@functools.cache
def _quota() -> float:
    """The cores' worth of time that control groups allow, rounded up; infinite where they set no limit.

    (Linux kernel documentation, cgroup-v2, "cpu.max"; cgroup-v1, "CFS Bandwidth Control".)
    """
    try:
        lines = _OWN_GROUPS.read_text().splitlines()
    except OSError:
        return math.inf
    found = [math.inf]
    for _, controllers, path in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if controllers and "cpu" not in controllers.split(","):
            continue
        # In a container, its own group is the root of what can be seen.
        group = PurePosixPath(path)
        root = _CONTROL_GROUPS / controllers  # the second version has no controllers in the path
        found += [_limit(root / str(place).lstrip("/")) for place in (group, *group.parents)]
    return min(found)


def _limit(group: Path) -> float:
    """The limit of one group; infinite where it has none, or cannot be seen."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        return math.inf if quota in ("max", "-1") else math.ceil(int(quota) / int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf
