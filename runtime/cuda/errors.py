"""Errors of programs for GPUs."""

from __future__ import annotations

from ...support.errors import CapacityError, RuntimeFailure


class DeviceError(RuntimeFailure):
    """There is no device, or it cannot execute the request."""


class DeviceMemoryError(CapacityError):
    """The device has less memory than a program needs."""


class SimulationError(RuntimeFailure):
    """A kernel violates the PTX ISA, or uses a feature that the simulator does not support.

    Attributes:
        line: line of the PTX text; 0 if the error has no line.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(f"PTX line {line}: {message}" if line else message)
        self.line = line


class PtxError(SimulationError):
    """Text that is not valid PTX, or PTX that the simulator does not support."""
