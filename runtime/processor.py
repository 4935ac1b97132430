"""This machine's processor, in LLVM's terms, and whether it can run code built for another one."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from ..machines.names import CPUS_WITH_TILES
from .program import CodeTarget

_X86_64_V2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_X86_64_V3 = (*_X86_64_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_X86_64_V4 = (*_X86_64_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
LEVELS: dict[str, tuple[str, ...]] = {
    "x86-64": (),
    "x86-64-v2": _X86_64_V2,
    "x86-64-v3": _X86_64_V3,
    "x86-64-v4": _X86_64_V4,
}
"""The x86-64 psABI processor levels, as the features each adds to the first level."""

_KERNEL_NAMES = {
    "pni": "sse3",
    "lahf_lm": "sahf",
    "abm": "lzcnt",
    "bmi1": "bmi",
    "pclmulqdq": "pclmul",
    "sha_ni": "sha",
    "rdrand": "rdrnd",
}
"""Feature names that differ between /proc/cpuinfo (keys) and LLVM (values) in more than punctuation."""

_AT_HWCAP, _AT_HWCAP2 = 16, 26
"""Entries of the auxiliary vector (linux/auxvec.h)."""
_ARM_CAPABILITIES = {
    _AT_HWCAP: {
        **{1: "neon", 8: "lse", 10: "fullfp16", 12: "rdm", 14: "complxnum"},
        **{15: "rcpc", 20: "dotprod", 22: "sve", 23: "fp16fml"},
    },
    _AT_HWCAP2: {1: "sve2", 13: "i8mm", 14: "bf16"},
}
"""LLVM's names of the bits in the auxiliary vector on AArch64, from Linux's arch/arm64/include/uapi/asm/hwcap.h."""

TILE_FEATURES = frozenset(("amxbf16", "amxint8", "amxtile"))
"""Instruction sets that a process must ask for, without punctuation."""

_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
"""Number of the system call on x86-64, its request ARCH_REQ_XCOMP_PERM, and the component of the state."""

# Features that tensor code uses and that both LLVM and the system name. Other features that LLVM lists (`64bit`,
# `avx10.1`) do not make a machine unsupported.
_TENSOR_FEATURES = frozenset(
    (
        *_X86_64_V4,
        *(f"avx512{name}" for name in ("bf16", "bitalg", "fp16", "ifma", "vbmi", "vbmi2", "vnni", "vpopcntdq")),
        *("amx-bf16", "amx-int8", "amx-tile", "avxvnni", "gfni", "vaes"),
        *("bf16", "complxnum", "dotprod", "fp16fml", "fullfp16", "i8mm", "lse", "neon", "rcpc", "rdm", "sve", "sve2"),
    )
)


@functools.cache
def features() -> frozenset[str] | None:
    """Returns this machine's instruction sets, without punctuation; None if the system does not report them.

    Those with tile registers are among them only if this process may use them, which it asks for.
    """
    if architecture() == "aarch64" and system() == "linux":
        # An emulator of processes, which containers for AArch64 use elsewhere, does not replace /proc/cpuinfo.
        vector = ctypes.CDLL(None).getauxval
        vector.restype, vector.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
        return arm_features({word: vector(word) for word in _ARM_CAPABILITIES})
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return None
    line = re.search(r"^(?:flags|Features)\s*:(.*)$", path.read_text(), re.MULTILINE)
    if line is None:
        return None
    found = frozenset(_plain(_KERNEL_NAMES.get(name, name)) for name in line.group(1).split())
    if TILE_FEATURES & found and not _may_use_tiles():
        return found - TILE_FEATURES
    return found


def _may_use_tiles() -> bool:
    """Asks Linux for the use of tile registers in this process and its children; returns whether it is granted.

    Without it, their first use ends the process (https://docs.kernel.org/arch/x86/xstate.html).
    """
    call = ctypes.CDLL(None).syscall
    call.restype, call.argtypes = ctypes.c_long, [ctypes.c_long] * 3
    return call(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0


def arm_features(words: Mapping[int, int]) -> frozenset[str]:
    """Returns the instruction sets of an AArch64 processor for words of Linux's auxiliary vector by their types."""
    return frozenset(
        name for word, names in _ARM_CAPABILITIES.items() for bit, name in names.items() if words[word] >> bit & 1
    )


@functools.cache
def is_virtual() -> bool:
    """Returns whether this machine runs under a hypervisor, as far as the system reports it."""
    path = Path("/proc/cpuinfo")
    return path.exists() and "hypervisor" in path.read_text()


@functools.cache
def memory_bytes() -> int:
    """Returns this machine's memory in bytes; 2**62 if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 1 << 62


def architecture() -> str:
    """Returns this machine's architecture as LLVM's triples spell it."""
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def system() -> str:
    """Returns the part of LLVM's triples that names this machine's system."""
    return {"linux": "linux", "darwin": "darwin", "windows": "windows"}.get(
        platform.system().lower(), platform.system()
    )


def missing(target: CodeTarget) -> list[str]:
    """Returns the requirements of native code for `target` that this machine lacks; empty if the code runs."""
    triple = target.triple.replace("macos", "darwin")
    if target.architecture != architecture() or system() not in triple:
        return [f"{target.triple} (this is {architecture()}-{system()})"]
    here = features()
    return [] if here is None else [name for name in needs(target) if _plain(name) not in here]


def needs(target: CodeTarget) -> list[str]:
    """Returns the instruction sets beyond the architecture's baseline that code for `target` may use."""
    named = {*LEVELS.get(target.cpu, ()), *(name.lstrip("+") for name in target.features if not name.startswith("-"))}
    if target.cpu in CPUS_WITH_TILES and not target.features:
        named |= {"amx-bf16", "amx-int8", "amx-tile"}
    return sorted(name for name in named if name in _TENSOR_FEATURES)


@functools.cache
def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
