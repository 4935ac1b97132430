"""NVIDIA GPUs as targets, reduced to the few numbers that schedules need."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

from ...lowering.target import Target
from ...lowering.target_names import TargetError, split_precision
from ...machines.families import FAMILIES
from ...machines.gpus import ACCESS_BYTES, CAPABILITIES, THREAD_REGISTERS, Capability
from ...machines.machine import Machine
from ...passes.infra.state import DEFAULT_TARGET
from ..names import NAMES

_TRIPLE = "nvptx64-nvidia-cuda"

# The oldest versions of PTX that support these architectures: any driver that supports the device reads them.
_PTX = {"sm_80": "+ptx80", "sm_86": "+ptx80", "sm_89": "+ptx80", "sm_90a": "+ptx80", "sm_100a": "+ptx86"}


@dataclass(frozen=True, kw_only=True)
class GpuTarget(Target):
    """An NVIDIA GPU to generate code for.

    `vector_bytes` is the width of a thread's widest memory access, `vector_registers` the number of 32-bit registers
    per thread.

    Attributes:
        capability: capabilities of the GPU.
    """

    device: ClassVar[str] = "cuda"

    capability: Capability

    @functools.cached_property
    def machine(self) -> Machine:
        """Description of an average CPU: schedules for GPUs are chosen by `capability`."""
        return FAMILIES[DEFAULT_TARGET]

    @staticmethod
    @functools.cache
    def parse(text: str) -> GpuTarget:
        """Returns a GPU by its name, such as "cuda:sm_80"; a precision may follow, as in "cuda:sm_80+tf32".

        Raises:
            TargetError: there is no such GPU.
        """
        machine, precision = split_precision(text)
        family, _, name = machine.partition(":")
        if family != "cuda" or name not in CAPABILITIES:
            raise TargetError(f"unknown target '{machine}'; known are {', '.join(NAMES['cuda'])}")
        return GpuTarget(
            triple=_TRIPLE,
            cpu=name,
            features=(_PTX[name],),
            vector_bytes=ACCESS_BYTES,
            vector_registers=THREAD_REGISTERS,
            precision=precision,
            capability=CAPABILITIES[name],
        )
