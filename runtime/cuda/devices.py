"""Whether there is a GPU here, and which code runs on it."""

from __future__ import annotations

import functools
import os
import re

SIMULATE = "simulate"
"""What `STEPWELL_CUDA` is set to where programs for GPUs shall run on the simulator."""


def is_simulated() -> bool:
    """Whether programs for GPUs run on the simulator instead of a device."""
    return os.environ.get("STEPWELL_CUDA") == SIMULATE


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
        from cuda.bindings import driver  # pyright: ignore[reportMissingImports]
    except ImportError:
        return "the package cuda-bindings is not installed"
    error, *_ = driver.cuInit(0)
    if error != driver.CUresult.CUDA_SUCCESS:
        return f"the driver says {error.name}"
    error, device = driver.cuDeviceGet(0)
    if error != driver.CUresult.CUDA_SUCCESS:
        return f"the driver says {error.name}"
    kinds = driver.CUdevice_attribute
    digits = []
    for kind in (
        kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
    ):
        error, value = driver.cuDeviceGetAttribute(kind, device)
        if error != driver.CUresult.CUDA_SUCCESS:
            return f"the driver says {error.name}"
        digits.append(value)
    return 10 * digits[0] + digits[1]
