"""Interface of a device, which the driver of a GPU (driver.py) and the simulator of `targets/nvidia` implement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from ..launch_plan import Launch, TensorMap
from .boxes import BoxCopy
from .errors import DeviceError

StreamId = int
"""A handle of the driver for a queue of work that a device executes in order."""

KernelArguments = Sequence[bytes]
"""The parameters of a kernel, each as bytes."""

KernelLauncher = Callable[[KernelArguments, StreamId], None]
"""Enqueues a launch on a stream; the driver copies the arguments immediately."""


class Device(Protocol):
    """A device with its own memory. Addresses are numbers; errors are `DeviceError`s."""

    @property
    def number(self) -> int:
        """Index of the device on this machine."""
        ...

    def describe(self) -> str:
        """Returns the device's name, for messages and tables."""
        ...

    def new_stream(self) -> StreamId:
        """Creates a stream that is not ordered with other streams."""
        ...

    def allocate(self, nbytes: int) -> int:
        """Allocates memory; returns its address, a multiple of 256.

        Raises:
            DeviceMemoryError: there is not enough memory.
        """
        ...

    def free(self, address: int) -> None:
        """Frees an allocation once all work enqueued before has finished."""
        ...

    def discard(self, address: int, nbytes: int, *, padding: bool = False) -> None:
        """Marks bytes as undefined; `padding` permits kernels to read them, as results do not depend on them."""
        ...

    def write(self, address: int, array: np.ndarray, stream: StreamId) -> None:
        """Copies a contiguous array to the device; the array may be modified after the call."""
        ...

    def read(self, address: int, array: np.ndarray, stream: StreamId) -> None:
        """Copies from the device into a contiguous array, which is valid after `synchronize`."""
        ...

    def copy(self, target: int, source: int, nbytes: int, stream: StreamId) -> None:
        """Copies within the device."""
        ...

    def copy_box(self, target: int, source: int, box: BoxCopy, stream: StreamId) -> None:
        """Copies a part of a tensor into a part of another tensor on the same device."""
        ...

    def fill(self, address: int, nbytes: int, value: int, stream: StreamId) -> None:
        """Sets every byte of a range to a value."""
        ...

    def prepare(self, launch: Launch, objects: Mapping[str, bytes]) -> KernelLauncher:
        """Prepares a launch, with the code of its module from the program's objects.

        Raises:
            DeviceError: the device cannot run it.
        """
        ...

    def tensor_map(self, tensor: TensorMap, address: int) -> bytes:
        """Returns the descriptor of a tensor at an address."""
        ...

    def synchronize(self, stream: StreamId) -> None:
        """Waits for all work enqueued on a stream.

        Raises:
            DeviceError: some of it failed.
        """
        ...

    def hand_over(self, stream: StreamId, consumer: StreamId) -> None:
        """Makes later work on the stream `consumer` wait for the work enqueued on `stream` so far."""
        ...

    def record(self, run: Callable[[StreamId], None], stream: StreamId) -> Callable[[StreamId], None] | None:
        """Records the work that `run` enqueues as a graph that is cheaper to run; None if not supported."""
        ...

    def times(self, runs: Sequence[Callable[[StreamId], None]], stream: StreamId) -> list[float]:
        """Returns the seconds that each of several runs takes on the device, in sequence."""
        ...


def ptx_of(launch: Launch, objects: Mapping[str, bytes]) -> bytes:
    """Returns the PTX of a launch, from a program's objects.

    Raises:
        DeviceError: it is missing.
    """
    if f"{launch.module}.ptx" not in objects:
        raise DeviceError(f"the program has no code for the module {launch.module!r}")
    return objects[f"{launch.module}.ptx"]
