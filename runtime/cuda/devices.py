"""Detection of GPUs, and compatibility of code with them."""

from __future__ import annotations

import functools
import importlib
import re

from ...support import environment
from ...support.environment import SIMULATE
from . import driver
from .device import Device
from .errors import DeviceError

_SIMULATOR = f"{__name__.partition('.')[0]}.targets.nvidia.simulator.device"
"""The module of the simulator. It is looked up by its name, as the runtime also runs without the rooms above it."""


def is_simulated() -> bool:
    """Returns whether GPU programs run on the simulator instead of a device."""
    return environment.is_simulated()


def missing(architecture: str) -> list[str]:
    """Returns what this machine lacks to run code for an architecture (`sm_80`, `sm_90a`); empty if nothing."""
    if is_simulated():
        return []
    here = capability()
    if isinstance(here, str):
        return [f"an NVIDIA GPU ({here}; STEPWELL_CUDA={SIMULATE} runs programs on a simulator, slowly)"]
    return [] if runs_on(architecture, here) else [f"a GPU of {architecture} (this one is sm_{here})"]


def runs_on(architecture: str, capability: int) -> bool:
    """Returns whether code for an architecture runs on a device of a compute capability (80 for 8.0).

    PTX is compiled for the present device, if its capability is at least that of the code. Architectures with the
    suffix `a` use features of that architecture only.
    """
    wanted = int(re.sub(r"\D", "", architecture))
    return capability == wanted if architecture.endswith("a") else capability >= wanted


@functools.cache
def capability() -> int | str:
    """Returns the compute capability of the first device, 90 for 9.0, or the reason why there is none."""
    try:
        return driver.device().capability
    except DeviceError as error:
        return str(error)


def current() -> Device:
    """Returns the device that programs run on: the first GPU, or a new simulator with memory of its own.

    Raises:
        DeviceError: there is no device, or the simulator is not installed.
    """
    return _simulator() if is_simulated() else driver.device()


def _simulator() -> Device:
    try:
        module = importlib.import_module(_SIMULATOR)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{_SIMULATOR}.".startswith(f"{error.name}."):
            raise
        raise DeviceError(
            f"STEPWELL_CUDA={SIMULATE} needs the module '{_SIMULATOR}', which is not installed; install stepwell or "
            "stepwell-runtime, or unset STEPWELL_CUDA to run on a GPU"
        ) from error
    return module.SimulatedDevice()
