"""What the runtime asks of a device: the driver of a GPU does it (driver.py), or the simulator (simulated.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from .boxes import Box
from .launch_plan import Launch, TensorMap

Stream = int
"""An order in which a device does things; a handle of the driver's."""

Arguments = Sequence[bytes]
"""The bytes of each of a kernel's parameters."""

Kernel = Callable[[Arguments, Stream], None]
"""Puts a launch on a stream; the driver copies the arguments at once."""


class Device(Protocol):
    """A device with memory of its own. Addresses are numbers; errors are `DeviceError`s."""

    @property
    def number(self) -> int:
        """Which of the machine's devices it is."""
        ...

    def describe(self) -> str:
        """Its name, for messages and tables."""
        ...

    def new_stream(self) -> Stream:
        """A stream that orders nothing but what is put on it."""
        ...

    def allocate(self, nbytes: int) -> int:
        """The address of so many bytes, a multiple of 256.

        Raises:
            DeviceMemoryError: there are not so many.
        """
        ...

    def free(self, address: int) -> None:
        """Gives an allocation back, once all that was put on streams before is done."""
        ...

    def discard(self, address: int, nbytes: int, *, garbage: bool = False) -> None:
        """What these bytes hold is of no use any longer; `garbage` may be read, if nothing comes of it."""
        ...

    def write(self, address: int, array: np.ndarray, stream: Stream) -> None:
        """Copies a contiguous array to the device; it may change afterwards."""
        ...

    def read(self, address: int, array: np.ndarray, stream: Stream) -> None:
        """Copies from the device into a contiguous array, which is there after `synchronize`."""
        ...

    def copy(self, target: int, source: int, nbytes: int, stream: Stream) -> None:
        """Copies within the device."""
        ...

    def copy_box(self, target: int, source: int, box: Box, stream: Stream) -> None:
        """Copies a part of a tensor at one address into a part of a tensor at another, within the device."""
        ...

    def fill(self, address: int, nbytes: int, value: int, stream: Stream) -> None:
        """Sets all of some bytes."""
        ...

    def prepare(self, launch: Launch, objects: Mapping[str, bytes]) -> Kernel:
        """Makes a launch ready, with the code of its module from the program's objects.

        Raises:
            DeviceError: the device cannot run it.
        """
        ...

    def tensor_map(self, tensor: TensorMap, address: int) -> bytes:
        """The descriptor of a tensor at an address."""
        ...

    def synchronize(self, stream: Stream) -> None:
        """Waits until all is done that was put on a stream.

        Raises:
            DeviceError: something of it failed.
        """
        ...

    def hand_over(self, stream: Stream, consumer: Stream) -> None:
        """What is put on another stream from now on comes after what is on one so far."""
        ...

    def record(self, run: Callable[[Stream], None], stream: Stream) -> Callable[[Stream], None] | None:
        """What does again what `run` puts on a stream, for less; None where there is no such thing."""
        ...

    def times(self, runs: Sequence[Callable[[Stream], None]], stream: Stream) -> list[float]:
        """How many seconds each of some runs takes on the device, one after the other."""
        ...
