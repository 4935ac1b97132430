"""The families of targets: those built in, and those of other packages.

Another package adds a family by an entry point. Its name is the family, the part of a target's name before the colon;
its value is a module with two functions:

    [project.entry-points."stepwell.targets"]
    cube = "cube_target"

    def backend() -> Backend: ...   # generates code
    def loader() -> Loader: ...     # runs programs (`runtime/devices/loader.py`); must not import MLIR

The module is imported when a target of the family is first named. Neither MLIR nor LLVM is needed to check the names of
targets, unless they hold one of LLVM's names of CPUs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..lowering.target_names import X86_LEVELS, TargetError, split_precision
from ..runtime import processor
from ..runtime.devices.packages import packages
from .names import NAMES

if TYPE_CHECKING:
    from ..lowering.target import Target
    from .base import Backend


def check_target(name: str) -> None:
    """Checks the name of a target, without loading LLVM unless the name holds one of LLVM's CPU names.

    Raises:
        TargetError: there is no such target; the message lists the known ones.
    """
    machine = split_precision(name)[0]
    if not any(machine in names for names in NAMES.values()) or machine.endswith(":NAME"):
        target_of(name)


def is_cpu(name: str) -> bool:
    """Returns whether a target is a CPU that this package generates code for; does not load LLVM."""
    machine = split_precision(name)[0]
    return machine in X86_LEVELS or machine.partition(":")[0] in ("cpu", "aarch64")


@functools.cache
def target_of(name: str) -> Target:
    """Returns a target by its name.

    Names are `cpu` (this machine), `cpu:NAME` (one of LLVM's CPU names, for this architecture), `x86-64-v2`,
    `x86-64-v3`, `x86-64-v4`, `aarch64`, `aarch64:NAME`, `cuda:sm_80` and other GPUs of NVIDIA, and those of other
    packages. The precision of products of float32 may follow, as in `cuda:sm_80+tf32`.

    Raises:
        TargetError: there is no such target.
    """
    return backend_of(name).target(name)


def backend_of(name: str) -> Backend:
    """Returns the backend of a target by the target's name.

    Raises:
        TargetError: no family has the target, or the package of its family cannot be imported.
    """
    machine = split_precision(name)[0]
    family = "x86_64" if machine in X86_LEVELS else machine.partition(":")[0]
    if family == "cpu":
        family = processor.architecture()
    found = _backend(family)
    if found is None:
        raise _unknown_target(machine)
    return found


def _unknown_target(machine: str) -> TargetError:
    """Returns the error for a machine without a known target."""
    known = [name for names in NAMES.values() for name in names]
    for family in packages():
        backend = _backend(family)
        known += backend.names() if backend is not None else ()
    return TargetError(f"unknown target '{machine}'; known are {', '.join(known)}")


_backends: dict[str, Backend] = {}
"""The backends in use by family. The fingerprint of plug-ins, which is part of cache keys, finds them here."""


def _backend(family: str) -> Backend | None:
    """Returns the backend of a family; None if there is no such family."""
    if family not in _backends:
        made = _BUILT_IN[family]() if family in _BUILT_IN else _of_package(family)
        if made is None:
            return None
        _backends[family] = made
    return _backends[family]


def _of_package(family: str) -> Backend | None:
    found = packages().get(family)
    if found is None:
        return None
    try:
        return found.load().backend()
    except Exception as error:  # the code of another package may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise TargetError(f"the package {found.package} of the targets '{family}:...' failed: {reason}") from error


def _x86_64() -> Backend:
    from .x86_64 import X86Backend  # loads MLIR

    return X86Backend()


def _aarch64() -> Backend:
    from .aarch64 import ArmBackend  # loads MLIR

    return ArmBackend()


def _cuda() -> Backend:
    from .nvidia.backend import CudaBackend  # loads MLIR, and all code generation for GPUs

    return CudaBackend()


_BUILT_IN: Mapping[str, Callable[[], Backend]] = {"x86_64": _x86_64, "aarch64": _aarch64, "cuda": _cuda}
