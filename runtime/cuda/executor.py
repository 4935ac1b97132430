"""Execution of launch plans on a device: parameters are uploaded once, repeated runs are recorded as a graph."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...support.errors import CapacityError
from ..launch_plan import ARENA, INPUT, OUTPUT, PARAMETER, BufferSlice, DeviceCopy, Fill, Launch, LaunchArgument, Scalar
from ..program import Program, Shape, TensorInfo
from .boxes import boxes
from .device import Device, KernelLauncher, StreamId
from .dlpack import DEFAULT_STREAM, DeviceArray
from .errors import DeviceError, DeviceMemoryError

_ALIGNMENT = 256
"""Alignment of buffers in bytes, as of all allocations (CUDA C++ Programming Guide, "Device Memory Accesses")."""
_READABLE = 16
"""Alignment in bytes that kernels expect of their buffers."""

_SCALARS = {"int32": np.int32, "int64": np.int64, "float32": np.float32, "float64": np.float64}
_GRAPHS = 8
"""Maximum number of cached graphs; each is for one combination of input and output addresses."""

_Run = Callable[[StreamId], None]
Addresses = tuple[int, ...]


@dataclass
class CallSlot:
    """Resources of one call; concurrent calls use different slots.

    Attributes:
        stream: stream of its launches.
        arena: address of its scratch memory.
        inputs: buffers for inputs copied from the host.
        outputs: buffers for outputs that are copied to the host.
        graphs: graph of a run by input and output addresses; None after the first run with them.
        spare: output buffers on the device that nothing refers to any more.
        staged: for programs with symbolic sizes, dense buffers for inputs and outputs smaller than the maximum.
        held: shapes of the data in the zero-padded input buffers.
    """

    stream: StreamId
    arena: int
    inputs: Addresses
    outputs: Addresses
    graphs: dict[tuple[Addresses, Addresses], _Run | None] = field(default_factory=dict)
    spare: list[Addresses] = field(default_factory=list)
    staged: tuple[Addresses, Addresses] | None = None
    held: dict[int, Shape] = field(default_factory=dict)


class DeviceProgram:
    """A program on a device. Calls may come from several threads at once."""

    def __init__(self, program: Program, device: Device) -> None:
        """Loads code and parameters onto the device.

        Raises:
            DeviceError: the device cannot run the code.
            DeviceMemoryError: there is not enough memory; the message states the program's requirements.
        """
        assert program.launches is not None
        self._plan, self._device = program.launches, device
        self._is_ranged = program.bounds is not None
        self._takes = list(program.inputs)
        self._inputs = [info.nbytes for info in program.inputs]
        guards = [TensorInfo(reason, np.dtype(bool), ()) for reason in program.guards]
        counts = [TensorInfo("count", np.dtype(np.int64), ()) for _ in program.counts]
        self._results = [*program.outputs, *guards, *counts]
        self._outputs = [info.nbytes for info in self._results]
        self._lock = threading.Lock()
        self._idle: list[CallSlot] = []
        self._kernels: dict[int, KernelLauncher] = {
            place: device.prepare(step, program.objects)
            for place, step in enumerate(self._plan.steps)
            if isinstance(step, Launch)
        }
        self._owned: list[int] = []
        weakref.finalize(self, _free, device, self._owned).atexit = False
        sizes = [array.nbytes for array in program.parameters.values()]
        self._parameters = self._allocated(sizes, "parameters")
        stream = device.new_stream()
        for address, array in zip(self._parameters, program.parameters.values(), strict=True):
            device.write(address, np.ascontiguousarray(array), stream)
        device.synchronize(stream)

    def run(self, inputs: Sequence[np.ndarray | DeviceArray], outputs: Sequence[np.ndarray]) -> None:
        """Runs the plan on arrays of the host or inputs on the device; writes the results to arrays of the host.

        A program with symbolic sizes accepts arrays that are smaller than its own.

        Raises:
            DeviceError: a step failed.
        """
        with self._slot() as slot:
            self._discard(slot)
            self._replay(slot, self._input_addresses(inputs, slot), slot.outputs)
            self._read(slot, outputs)

    def run_timed(self, inputs: Sequence[np.ndarray | DeviceArray], outputs: Sequence[np.ndarray]) -> list[float]:
        """Runs the plan like `run`, and measures every step.

        Returns:
            The seconds that each step of the plan took on the device.

        Raises:
            DeviceError: a step failed.
        """
        with self._slot() as slot:
            self._discard(slot)
            sources = self._input_addresses(inputs, slot)
            self._device.discard(slot.arena, self._plan.arena_bytes, padding=self._is_ranged)
            steps = [self._step(place, slot, sources, slot.outputs) for place in range(len(self._plan.steps))]
            seconds = self._device.times(steps, slot.stream)
            self._read(slot, outputs)
        return seconds

    def run_on_device(
        self, inputs: Sequence[np.ndarray | DeviceArray], shapes: Sequence[Shape] | None = None
    ) -> list[DeviceArray]:
        """Runs the plan with results on the device; it returns before these are computed.

        Args:
            inputs: the inputs.
            shapes: shapes of the outputs (and guards), if smaller than the program's.

        Raises:
            DeviceError: a step failed.
        """
        wide = [_shape(info) for info in self._results]
        shapes = list(shapes or wide)
        with self._slot() as slot:
            targets = slot.spare.pop() if slot.spare else self._allocated(self._outputs, "outputs")
            sources = self._input_addresses(inputs, slot)
            if shapes == wide:
                self._replay(slot, sources, targets)
            else:
                self._replay(slot, sources, slot.outputs)
                for place, target in enumerate(targets):
                    self._copy_box(place, target, slot.outputs[place], shapes[place], slot.stream)
            # The next user of the slot enqueues its work on the same stream, after this.
            return self._output_arrays(targets, slot, inputs, shapes)

    def fetched(self, array: DeviceArray) -> np.ndarray:
        """Copies a result to the host."""
        with self._slot() as slot:
            array.ready(slot.stream)
            host = np.empty(array.shape, array.dtype)
            self._device.read(array.address, host, slot.stream)
            self._device.synchronize(slot.stream)
        return host

    def timed(self, inputs: Sequence[np.ndarray], runs: int = 30, warmup: int = 5) -> float:
        """Returns the median of the seconds that the whole plan takes on the device, with inputs already there."""
        with self._slot() as slot:
            sources = self._input_addresses(inputs, slot)

            def run(_: object) -> None:
                self._replay(slot, sources, slot.outputs)

            taken = self._device.times([run] * (warmup + runs), slot.stream)
        return float(np.median(taken[warmup:]))

    def _discard(self, slot: CallSlot) -> None:
        """Marks the outputs of the previous call as undefined."""
        for address, nbytes in zip(slot.outputs, self._outputs, strict=True):
            self._device.discard(address, nbytes, padding=self._is_ranged)

    def _read(self, slot: CallSlot, outputs: Sequence[np.ndarray]) -> None:
        for place, (address, array) in enumerate(zip(slot.outputs, outputs, strict=True)):
            source = address
            if array.shape != _shape(self._results[place]):
                source = self._staged(slot)[1][place]
                self._copy_box(place, source, address, array.shape, slot.stream)
            self._device.read(source, array, slot.stream)
        self._device.synchronize(slot.stream)

    def _copy_box(self, place: int, target: int, source: int, shape: Shape, stream: StreamId) -> None:
        """Copies the prefix of a result with the given shape into a dense tensor of that shape."""
        info = self._results[place]
        for box in boxes(_shape(info), shape, info.dtype.itemsize):
            self._device.copy_box(target, source, box, stream)

    def _output_arrays(
        self, targets: Addresses, slot: CallSlot, inputs: Sequence[Any], shapes: Sequence[Shape]
    ) -> list[DeviceArray]:
        """Returns the results as tensors; their memory is reused when all of them are released."""
        device, readers = self._device, set()
        # The inputs are kept alive with the results, as they may still be read.
        owner = _Owner(self, tuple(inputs))
        weakref.finalize(owner, _give_back, device, slot, targets, readers).atexit = False

        def hand_over(consumer: StreamId) -> None:
            readers.add(consumer)
            device.hand_over(slot.stream, consumer)

        return [
            DeviceArray(address, shape, info.dtype, device.number, owner, hand_over)
            for address, info, shape in zip(targets, self._results, shapes, strict=True)
        ]

    def _input_addresses(self, inputs: Sequence[np.ndarray | DeviceArray], slot: CallSlot) -> Addresses:
        """Returns the addresses of the inputs: their own if kernels can read them there, else those of copies."""
        if any(isinstance(value, DeviceArray) for value in inputs):
            self._device.hand_over(DEFAULT_STREAM, slot.stream)
        return tuple(self._place(place, value, slot) for place, value in enumerate(inputs))

    def _place(self, place: int, value: np.ndarray | DeviceArray, slot: CallSlot) -> int:
        target = slot.inputs[place]
        if isinstance(value, DeviceArray) and value.number != self._device.number:
            raise DeviceError(f"expected an input on device {self._device.number}, got {value!r}")
        if self._is_ranged and value.shape != _shape(self._takes[place]):
            self._write_padded(place, value, slot)
            return target
        if not isinstance(value, DeviceArray):
            slot.held.pop(place, None)
            self._device.write(target, value, slot.stream)
            return target
        if value.address % _READABLE == 0:
            return value.address
        slot.held.pop(place, None)
        self._device.copy(target, value.address, value.nbytes, slot.stream)
        return target

    def _write_padded(self, place: int, value: np.ndarray | DeviceArray, slot: CallSlot) -> None:
        """Copies an input into the buffer of maximum size, zero-padded: the program relies on the padding."""
        device, target, info = self._device, slot.inputs[place], self._takes[place]
        if slot.held.get(place) != value.shape:
            device.fill(target, info.nbytes, 0, slot.stream)
            slot.held[place] = value.shape
        if isinstance(value, DeviceArray):
            source = value.address
        else:
            source = self._staged(slot)[0][place]
            device.write(source, value, slot.stream)
        for box in boxes(value.shape, _shape(info), info.dtype.itemsize):
            device.copy_box(target, source, box, slot.stream)

    def _staged(self, slot: CallSlot) -> tuple[Addresses, Addresses]:
        """Returns dense buffers for inputs and outputs that are smaller than the program's."""
        if slot.staged is None:
            inputs = self._allocated(self._inputs, "inputs of fewer elements")
            slot.staged = inputs, self._allocated(self._outputs, "outputs of fewer elements")
        return slot.staged

    def _replay(self, slot: CallSlot, inputs: Addresses, outputs: Addresses) -> None:
        """Runs all steps: individually at the first use of these addresses, then as a graph."""
        key = inputs, outputs
        if key not in slot.graphs:
            if len(slot.graphs) >= _GRAPHS:
                slot.graphs.clear()
            slot.graphs[key] = None
            self._steps(slot, inputs, outputs, slot.stream)
            return
        graph = slot.graphs[key]
        if graph is None:
            graph = self._device.record(lambda stream: self._steps(slot, inputs, outputs, stream), slot.stream)
            if graph is None:
                self._steps(slot, inputs, outputs, slot.stream)
                return
            slot.graphs[key] = graph
        graph(slot.stream)

    def _steps(self, slot: CallSlot, inputs: Addresses, outputs: Addresses, stream: StreamId) -> None:
        self._device.discard(slot.arena, self._plan.arena_bytes, padding=self._is_ranged)
        for place in range(len(self._plan.steps)):
            self._step(place, slot, inputs, outputs)(stream)

    def _step(self, place: int, slot: CallSlot, inputs: Addresses, outputs: Addresses) -> _Run:
        device, step = self._device, self._plan.steps[place]
        spaces = {INPUT: inputs, OUTPUT: outputs, PARAMETER: self._parameters, ARENA: (slot.arena,)}

        def at(buffer: BufferSlice) -> int:
            return spaces[buffer.space][buffer.index] + buffer.offset

        if isinstance(step, Fill):
            return lambda stream: device.fill(at(step.buffer), step.buffer.bytes, step.value, stream)
        if isinstance(step, DeviceCopy):
            return lambda stream: device.copy(at(step.target), at(step.source), step.source.bytes, stream)
        kernel = self._kernels[place]
        arguments = [self._argument(argument, at) for argument in step.arguments]
        return lambda stream: kernel(arguments, stream)

    def _argument(self, argument: LaunchArgument, at: Callable[[BufferSlice], int]) -> bytes:
        if isinstance(argument, BufferSlice):
            return at(argument).to_bytes(8, "little")
        if isinstance(argument, Scalar):
            return np.asarray(argument.value, _SCALARS[argument.type]).tobytes()
        return self._device.tensor_map(argument, at(argument.buffer))

    @contextlib.contextmanager
    def _slot(self) -> Iterator[CallSlot]:
        """Provides a slot for one call."""
        try:
            slot = self._idle.pop()
        except IndexError:
            slot = self._new_lane()
        try:
            yield slot
        finally:
            self._idle.append(slot)

    def _new_lane(self) -> CallSlot:
        inputs = self._allocated(self._inputs, "inputs")
        outputs = self._allocated(self._outputs, "outputs")
        (arena,) = self._allocated([self._plan.arena_bytes], "arena")
        return CallSlot(self._device.new_stream(), arena, inputs, outputs)

    def _allocated(self, sizes: Sequence[int], what: str) -> Addresses:
        """Allocates buffers of the given sizes in one allocation.

        Raises:
            DeviceMemoryError: there is not enough memory; the message states the program's requirements.
        """
        spaced = [-(-max(size, 1) // _ALIGNMENT) * _ALIGNMENT for size in sizes]
        try:
            address = self._device.allocate(max(sum(spaced), 1))
        except CapacityError as error:
            raise DeviceMemoryError(
                f"{error}; they are for the {what} of a program that needs {self._requirements()}"
            ) from None
        with self._lock:
            self._owned.append(address)
        offsets = np.cumsum([0, *spaced])[:-1]
        return tuple(address + int(offset) for offset in offsets)

    def _requirements(self) -> str:
        parts = {"inputs": sum(self._inputs), "outputs": sum(self._outputs), "scratch": self._plan.arena_bytes}
        return ", ".join(f"{size / 2**20:.1f} MiB of {what}" for what, size in parts.items())


def _shape(info: TensorInfo) -> Shape:
    """Returns the shape of a program's input or output, which is always static."""
    return tuple(map(int, info.shape))


@dataclass(frozen=True, eq=False)
class _Owner:
    """Keeps alive the program and the inputs that the results of a call depend on."""

    program: DeviceProgram
    inputs: tuple[Any, ...]


def _give_back(device: Device, slot: CallSlot, targets: Addresses, readers: set[StreamId]) -> None:
    """Returns result buffers for reuse after all streams that read them."""
    for reader in readers:
        device.hand_over(reader, slot.stream)
    slot.spare.append(targets)


def _free(device: Device, addresses: list[int]) -> None:
    for address in addresses:
        device.free(address)
