"""The loaders of all families of devices.

CPUs and NVIDIA GPUs are built in; other packages add families by the entry points `stepwell.targets` (`packages.py`).
"""

from __future__ import annotations

import functools

from ...support.errors import ArtefactError
from ..program import CodeTarget
from .loader import Loader
from .packages import packages


def loader_of(target: CodeTarget) -> Loader:
    """Returns the loader of a target's device.

    Raises:
        ArtefactError: no installed package runs code for the device, or the package cannot be imported.
    """
    return _loader(target.family)


def missing(target: CodeTarget) -> list[str]:
    """Returns what this machine lacks to run code for a target; empty if the code runs."""
    try:
        return loader_of(target).missing(target)
    except ArtefactError as error:
        return [str(error)]


def rank(target: CodeTarget) -> tuple[int, int]:
    """Returns a sort key for targets that run here; the greatest is best: other devices rank above CPUs."""
    return loader_of(target).rank(target)


@functools.cache
def _loader(family: str) -> Loader:
    if family == "cpu":
        from .native import NativeLoader

        return NativeLoader()
    if family == "cuda":
        from .cuda import CudaLoader  # most programs are for a CPU

        return CudaLoader()
    found = packages().get(family)
    if found is None:
        raise ArtefactError(f"an installed package that runs code for the device '{family}'")
    try:
        return found.load().loader()
    except Exception as error:  # the code of another package may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise ArtefactError(f"the package {found.package}, which failed: {reason}") from error
