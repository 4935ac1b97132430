"""Running programs: the host's code calls the simulator where a kernel is an instruction stream."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from stepwell.runtime.devices.loader import Estimates, Resident
from stepwell.runtime.devices.native import NativeLoader
from stepwell.runtime.execution.workspace import LoadedProgram
from stepwell.runtime.facts import CompileFacts
from stepwell.runtime.native import loader
from stepwell.runtime.program import CodeTarget, KernelInfo, Program
from stepwell.support.errors import ArtefactError

from .encoding import MAGIC, EncodingError, decode
from .hazards import StreamError
from .isa import CubeProgram
from .machine import MACHINES
from .simulator import Simulator

if TYPE_CHECKING:
    from stepwell.runtime.execution.recorder import CallRecorder


class CubeLoader(NativeLoader):
    """Loads the host's code into this process, and streams into simulators."""

    links = False  # a shared library cannot refer to functions of the simulator

    def missing(self, target: CodeTarget) -> list[str]:
        """Returns what the host lacks, and the unit if there is no such version."""
        version = target.device.partition(":")[2]
        lacking = [] if version in MACHINES else [f"a simulator of {target.device}"]
        return super().missing(target) + lacking

    def rank(self, target: CodeTarget) -> tuple[int, int]:
        """Returns a key below that of the CPU alone: a simulator is slow, so it must be asked for."""
        return -1, 0

    def load(self, program: Program, resident: Resident, recorder: CallRecorder | None) -> LoadedProgram:
        """Loads the host's objects, with a function of the simulator for each stream."""
        machine = program.target.device.partition(":")[2]
        unit = SimulatedUnit(machine, {name: data for name, data in program.objects.items() if data.startswith(MAGIC)})
        host = {name: data for name, data in program.objects.items() if name not in unit.functions}
        alone = replace(program, objects=host)
        code = loader.load(alone, unit.symbols) if recorder is None else recorder.load(alone, unit.symbols)
        arrays = [resident(array) for array in program.parameters.values()]
        return LoadedProgram(program, replace(code, entry=unit.guarded(code.entry)), arrays)

    def estimates(self, program: Program, facts: CompileFacts, threads: int) -> Estimates:
        """Returns the host's estimates, and for streams the cycles that their timelines have."""
        machine = MACHINES[program.target.device.partition(":")[2]]
        host = super().estimates(program, facts, threads)

        def describe(info: KernelInfo) -> dict[str, Any]:
            details = facts.details.get(info.name)
            if details is None or "cycles" not in details.device:
                return host.describe(info)
            unit = details.device
            bound = "compute" if unit["compute"] >= max(unit["load"], unit["store"]) else "memory"
            seconds = unit["cycles"] / machine.clock
            return {**host.describe(info), "scalar_share": 0.0, "predicted_seconds": seconds, "bound": bound}

        return replace(host, describe=describe)


class SimulatedUnit:
    """A unit that native code calls: one function for each stream, which takes the addresses of the arguments.

    There is one unit for a program, so calls from several threads wait for each other.
    """

    def __init__(self, machine: str, streams: Mapping[str, bytes]) -> None:
        """Decodes and checks the streams.

        Raises:
            ArtefactError: a stream is damaged or illegal.
        """
        self._turn = threading.Lock()
        self._failure: BaseException | None = None
        self.functions: dict[str, Any] = {}
        for name, data in streams.items():
            try:
                program = decode(data)
                simulator = Simulator(program, MACHINES[machine])
            except (EncodingError, StreamError) as error:
                raise ArtefactError(f"{name}: {error}") from error
            kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(program.sizes))
            self.functions[name] = kind(self._function(program, simulator))

    @property
    def symbols(self) -> dict[str, int]:
        """The addresses of the functions by name."""
        return {name: ctypes.cast(item, ctypes.c_void_p).value or 0 for name, item in self.functions.items()}

    def guarded(self, entry: Callable[[Any], None]) -> Callable[[Any], None]:
        """Returns an entry function that raises what a simulator raised; native code cannot."""

        def call(table: Any) -> None:
            with self._turn:
                entry(table)
                failure, self._failure = self._failure, None
            if failure is not None:
                raise failure

        return call

    def _function(self, program: CubeProgram, simulator: Simulator) -> Callable[..., None]:
        def run(*addresses: int) -> None:
            try:
                simulator.run([_memory(*item) for item in zip(addresses, program.sizes, strict=True)])
            except BaseException as error:  # goes on in `guarded`
                self._failure = error

        return run


def _memory(address: int, size: int) -> np.ndarray:
    """Returns memory at an address as bytes."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
