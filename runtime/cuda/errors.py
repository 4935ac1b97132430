"""What can go wrong with a program for a GPU."""

from __future__ import annotations

from ..errors import CapacityError, RuntimeFailure


class DeviceError(RuntimeFailure):
    """There is no device, or it cannot do what is asked of it."""


class DeviceMemoryError(CapacityError):
    """The device has not as much memory as a program needs."""


class SimulationError(RuntimeFailure):
    """A kernel does what the PTX ISA does not allow, or what the simulator does not know.

    Attributes:
        line: the line of the PTX text; 0 where the fault is not of one.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(f"PTX line {line}: {message}" if line else message)
        self.line = line


class PtxError(SimulationError):
    """Text that is not PTX, or PTX that the simulator does not know."""
