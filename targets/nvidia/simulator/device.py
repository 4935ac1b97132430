"""The simulator as a device: slow, but with every memory access checked."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ....runtime.cuda.boxes import BoxCopy
from ....runtime.cuda.device import KernelArguments, KernelLauncher, StreamId, ptx_of
from ....runtime.cuda.errors import SimulationError
from ....runtime.launch_plan import Launch, TensorMap
from .batch import Checks, GridGeometry
from .memory import DEFINED, UNDEFINED, GlobalMemory
from .simulate import SimulatedModule
from .tensor_maps import encode

_NAN_BYTE = 0xFF
"""Byte pattern that is a NaN for floats of any width."""


class SimulatedDevice:
    """A simulated device."""

    number = 0

    def __init__(self) -> None:
        """Creates a device with no memory allocated."""
        self._checks = Checks()
        self.memory = GlobalMemory(allow_undefined=not self._checks.undefined_reads)
        self._modules: dict[bytes, SimulatedModule] = {}

    def describe(self) -> str:
        return "simulator"

    def new_stream(self) -> StreamId:
        return 0

    def allocate(self, nbytes: int) -> int:
        return self.memory.allocate(nbytes)

    def free(self, address: int) -> None:
        self.memory.free(address)

    def discard(self, address: int, nbytes: int, *, padding: bool = False) -> None:
        part = self.memory.part(address, nbytes)
        self.memory.state[part] = DEFINED if padding else UNDEFINED
        self.memory.data[part] = _NAN_BYTE

    def write(self, address: int, array: np.ndarray, stream: StreamId) -> None:
        self.memory.write(address, array)

    def read(self, address: int, array: np.ndarray, stream: StreamId) -> None:
        """Copies to the host, as for any device.

        Raises:
            SimulationError: some of the bytes were never written.
        """
        unwritten = self.memory.state[self.memory.part(address, array.nbytes)] == UNDEFINED
        if unwritten.any():
            raise SimulationError(f"{int(unwritten.sum())} of {array.nbytes} bytes read were never written")
        array[...] = self.memory.read(address, array.nbytes).view(array.dtype).reshape(array.shape)

    def copy(self, target: int, source: int, nbytes: int, stream: StreamId) -> None:
        memory = self.memory
        target_part, source_part = memory.part(target, nbytes), memory.part(source, nbytes)
        memory.data[target_part] = memory.data[source_part]
        memory.state[target_part] = memory.state[source_part]

    def copy_box(self, target: int, source: int, box: BoxCopy, stream: StreamId) -> None:
        for plane, row in itertools.product(range(box.depth), range(box.height)):
            written, read = (
                address + side.offset + side.pitch * (row + side.rows * plane)
                for address, side in ((target, box.target), (source, box.source))
            )
            self.copy(written, read, box.width, stream)

    def fill(self, address: int, nbytes: int, value: int, stream: StreamId) -> None:
        self.memory.write(address, np.full(nbytes, value, np.uint8))

    def prepare(self, launch: Launch, objects: Mapping[str, bytes]) -> KernelLauncher:
        text = ptx_of(launch, objects)
        if text not in self._modules:
            self._modules[text] = SimulatedModule(text.decode(), self.memory)
        module = self._modules[text]
        geometry = GridGeometry(launch.grid, launch.block, launch.cluster, launch.shared_bytes)

        def run(arguments: KernelArguments, stream: StreamId) -> None:
            try:
                module.launch(launch.entry, geometry, arguments, self._checks)
            except SimulationError as error:
                raise SimulationError(f"{launch.entry}: {error}") from error

        return run

    def tensor_map(self, tensor: TensorMap, address: int) -> bytes:
        return encode(tensor, address)

    def synchronize(self, stream: StreamId) -> None:
        pass  # all work is done immediately

    def record(self, run: Callable[[StreamId], None], stream: StreamId) -> Callable[[StreamId], None] | None:
        return None

    def times(self, runs: Sequence[Callable[[StreamId], None]], stream: StreamId) -> list[float]:
        seconds = []
        for run in runs:
            start = time.perf_counter()
            run(stream)
            seconds.append(time.perf_counter() - start)
        return seconds

    def hand_over(self, stream: StreamId, consumer: StreamId) -> None:
        pass  # all work is done immediately
