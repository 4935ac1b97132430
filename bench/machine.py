"""The machine of a measurement, its state, and the versions of all systems."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..driver.caching.fingerprint import fingerprint
from ..lowering.target import Target
from ..runtime import processor
from ..runtime.devices.figures import reported_caches
from ..support.version import VERSION
from .peers import HERE, SYSTEMS

_CPUS = Path("/sys/devices/system/cpu")
_CAN_PIN = hasattr(os, "sched_setaffinity")
PINNING = (
    "every system runs in its own process, "
    + (
        "pinned with all its threads (sched_setaffinity) to as many cores as a call may use threads; "
        if _CAN_PIN
        else "on any core, as this operating system does not pin processes; "
    )
    + "during a turn all others are stopped (SIGSTOP)"
)


@dataclass(frozen=True)
class HostRecord:
    """A machine, as its operating system describes it.

    Attributes:
        cpu: the processor's name.
        llvm_cpu: LLVM's name of the processor.
        vector_bits: width of its widest vector registers.
        cores: number of physical cores available to this process.
        caches: sizes in bytes by name, as visible to one core.
        memory_bytes: size of main memory.
        system: operating system and kernel.
        governor: governor of the clock; "not shown" if the system does not report it, as in a virtual machine.
        virtual: whether it runs under a hypervisor.
        versions: versions of Python and of every installed system, by name; Stepwell's includes the state of its
            sources.
    """

    cpu: str
    llvm_cpu: str
    vector_bits: int
    cores: int
    caches: Mapping[str, int]
    memory_bytes: int
    system: str
    governor: str
    virtual: bool
    versions: Mapping[str, str]

    @property
    def slug(self) -> str:
        """A name for a folder."""
        return f"{re.sub(r'[^a-z0-9]+', '-', self.llvm_cpu.lower())}-{self.cores}-cores"

    def __str__(self) -> str:
        caches = ", ".join(f"{name} {_size(size)}" for name, size in self.caches.items())
        return (
            f"{self.cpu} ({self.llvm_cpu}), {self.cores} cores, {self.vector_bits}-bit vectors, {caches}, "
            f"{_size(self.memory_bytes)} of memory, {self.system}, governor {self.governor}"
            + (", virtual" if self.virtual else "")
        )


def describe() -> HostRecord:
    """Describes this machine."""
    target = Target.host()
    info = _read(Path("/proc/cpuinfo"))
    name = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", info, re.MULTILINE)
    versions = {name: version for name, system in SYSTEMS.items() if (version := system.version) is not None}
    return HostRecord(
        cpu=name[1].strip() if name else platform.processor() or platform.machine(),
        llvm_cpu=target.cpu,
        vector_bits=8 * target.vector_bytes,
        cores=len(cores()),
        caches={f"L{level}{'d' if level == 1 else ''}": size for level, size in reported_caches().items()},
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        system=f"{platform.system()} {platform.release()}",
        governor=_read(_CPUS / "cpu0/cpufreq/scaling_governor").strip() or "not shown",
        virtual=processor.is_virtual(),
        versions={"python": platform.python_version(), **versions, HERE: _state_of_sources()},
    )


def cpus() -> list[int]:
    """The logical CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0)) if _CAN_PIN else list(range(os.cpu_count() or 1))


def cores() -> list[int]:
    """A logical CPU of each physical core that this process may use."""
    chosen: dict[str, int] = {}
    for cpu in cpus():
        siblings = _read(_CPUS / f"cpu{cpu}/topology/thread_siblings_list").strip() or str(cpu)
        chosen.setdefault(siblings, cpu)
    return list(chosen.values())


def _state_of_sources() -> str:
    """Returns the commit of the sources in a git work tree, else the version used in cache keys."""
    try:
        commit = _git("rev-parse", "--short", "HEAD")
        is_changed = _git("status", "--porcelain", "--untracked-files=no", "--", "..", ":!results")
    except (OSError, subprocess.CalledProcessError):
        return fingerprint()
    return f"{VERSION}+{commit}{'-changed' if is_changed else ''}"


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _size(number: int) -> str:
    for shift, unit in ((30, "GiB"), (20, "MiB")):
        if number >= 1 << shift:
            return f"{number / (1 << shift):.3g} {unit}"
    return f"{number >> 10} KiB"
