"""The number of cores available to this process, from its CPU affinity and its container's CPU quota."""

from __future__ import annotations

import functools
import math
import os
from pathlib import Path, PurePosixPath

_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")


def available_cores() -> int:
    """Returns the number of cores this process may use.

    With more threads, the kernel would stop each in turn while others wait for it.
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(max(1, min(bound, _quota())))


@functools.cache
def _quota() -> float:
    """Returns the number of cores' worth of CPU time that control groups allow, rounded up; infinite without a limit.

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
        # In a container, the process's own group is the root of the visible hierarchy.
        group = PurePosixPath(path)
        root = _CONTROL_GROUPS / controllers  # cgroup v2 has no controllers in the path
        found += [_limit(root / str(place).lstrip("/")) for place in (group, *group.parents)]
    return min(found)


def _limit(group: Path) -> float:
    """Returns the limit of one group; infinite if it has none or is not visible."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        return math.inf if quota in ("max", "-1") else math.ceil(int(quota) / int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf
