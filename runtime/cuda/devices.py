"""Whether there is a GPU here, and which code runs on it."""

from __future__ import annotations

import functools
import re

from .. import environment
from ..environment import SIMULATE
from . import driver
from .device import Device
from .errors import DeviceError
from .simulated import SimulatedDevice


def is_simulated() -> bool:
    """Whether programs for GPUs run on the simulator instead of a device."""
    return environment.is_simulated()


def missing(architecture: str) -> list[str]:
    """What code for an architecture (`sm_80`, `sm_90a`) needs and this machine lacks; empty where it runs."""
    if is_simulated():
        return []
    here = capability()
    if isinstance(here, str):
        return [f"an NVIDIA GPU ({here}; STEPWELL_CUDA={SIMULATE} runs programs on a simulator, slowly)"]
    return [] if runs_on(architecture, here) else [f"a GPU of {architecture} (this one is sm_{here})"]


def runs_on(architecture: str, capability: int) -> bool:
    """Whether code for an architecture runs on a device of a compute capability (80 for 8.0).

    PTX is compiled for whatever device is there, as long as that can do as much; what is named with an `a` uses what
    one architecture alone has.
    """
    wanted = int(re.sub(r"\D", "", architecture))
    return capability == wanted if architecture.endswith("a") else capability >= wanted


@functools.cache
def capability() -> int | str:
    """The compute capability of the first device, 90 for 9.0; where there is none, the reason."""
    try:
        return driver.device().capability
    except DeviceError as error:
        return str(error)


def current() -> Device:
    """The device that programs run on: the first GPU, or a simulator, whose memory is a program's own.

    Raises:
        DeviceError: there is none.
    """
    return SimulatedDevice() if is_simulated() else driver.device()
