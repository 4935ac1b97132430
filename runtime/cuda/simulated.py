"""Runs launch plans on the simulator: slowly, and with every access of memory checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..program import Program
from .errors import SimulationError
from .launch_plan import ARENA, INPUT, OUTPUT, PARAMETER, Argument, Buffer, Copy, Fill, Launch, Scalar, Step
from .simulator.batch import Geometry
from .simulator.memory import UNDEFINED, GlobalMemory
from .simulator.simulate import SimulatedModule
from .simulator.tensor_maps import encode

_SCALARS = {"int32": np.int32, "int64": np.int64, "float32": np.float32, "float64": np.float64}


class SimulatedProgram:
    """A program on a simulated device."""

    def __init__(self, program: Program) -> None:
        """Takes the program as it is: each run has a device of its own."""
        assert program.launches is not None
        self._plan, self._objects = program.launches, program.objects
        self._parameters = list(program.parameters.values())

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Runs the plan once.

        Raises:
            SimulationError: a kernel does what it must not, or leaves a part of an output unwritten.
        """
        _Run(self._plan.arena_bytes, self._objects, inputs, outputs, self._parameters).run(self._plan.steps)


class _Run:
    """One run: memory with the program's buffers in it."""

    def __init__(
        self,
        arena_bytes: int,
        objects: Mapping[str, bytes],
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        parameters: Sequence[np.ndarray],
    ) -> None:
        self._memory, self._objects, self._outputs = GlobalMemory(), objects, outputs
        self._addresses: dict[tuple[str, int], int] = {(ARENA, 0): self._memory.allocate(max(arena_bytes, 1))}
        self._modules: dict[str, SimulatedModule] = {}
        for space, arrays in ((INPUT, inputs), (PARAMETER, parameters), (OUTPUT, outputs)):
            for index, array in enumerate(arrays):
                address = self._addresses[space, index] = self._memory.allocate(max(array.nbytes, 1))
                if space != OUTPUT and array.nbytes:
                    self._memory.write(address, np.ascontiguousarray(array))

    def run(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._step(step)
        for index, array in enumerate(self._outputs):
            address = self._addresses[OUTPUT, index]
            unwritten = self._memory.state[self._memory.part(address, array.nbytes)] == UNDEFINED
            if unwritten.any():
                raise SimulationError(
                    f"{int(unwritten.sum())} of {array.nbytes} bytes of output {index} are not written"
                )
            array[...] = self._memory.read(address, array.nbytes).view(array.dtype).reshape(array.shape)

    def _step(self, step: Step) -> None:
        if isinstance(step, Launch):
            self._launch(step)
        elif isinstance(step, Fill):
            self._memory.write(self._address(step.buffer), np.full(step.buffer.bytes, step.value, np.uint8))
        elif isinstance(step, Copy):
            self._memory.write(
                self._address(step.target), self._memory.read(self._address(step.source), step.source.bytes)
            )

    def _launch(self, launch: Launch) -> None:
        if launch.module not in self._modules:
            text = self._objects[f"{launch.module}.ptx"].decode()
            self._modules[launch.module] = SimulatedModule(text, self._memory)
        geometry = Geometry(launch.grid, launch.block, launch.cluster, launch.shared_bytes)
        arguments = [self._argument(argument) for argument in launch.arguments]
        try:
            self._modules[launch.module].launch(launch.entry, geometry, arguments)
        except SimulationError as error:
            raise SimulationError(f"{launch.entry}: {error}") from error

    def _argument(self, argument: Argument) -> bytes:
        if isinstance(argument, Buffer):
            return np.uint64(self._address(argument)).tobytes()
        if isinstance(argument, Scalar):
            return _SCALARS[argument.type](argument.value).tobytes()
        return encode(argument, self._address(argument.buffer))

    def _address(self, buffer: Buffer) -> int:
        return self._addresses[buffer.space, buffer.index] + buffer.offset
