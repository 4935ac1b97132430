"""Launches of kernels of PTX modules on simulated memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....runtime.cuda.errors import SimulationError
from . import instructions  # noqa: F401 -- registers the builders of all instructions
from .batch import Batch, Checks, GridGeometry
from .kernel import PreparedKernel
from .memory import DEFINED, GlobalMemory, Space
from .observer import Observer
from .parser import parse
from .races import GlobalWrites
from .scheduler import Scheduler

# Threads, and bytes of shared memory, that are simulated at once: choices, as more would only take more memory.
_MOST_THREADS = 1 << 14
_MOST_SHARED_BYTES = 1 << 25
_LIMITS = ("reqntid", "maxntid")


class SimulatedModule:
    """A PTX module whose variables are in the memory of a simulated device."""

    def __init__(self, text: str, memory: GlobalMemory) -> None:
        """Parses PTX and allocates its variables.

        Raises:
            PtxError: the text is malformed, or not supported by the simulator.
        """
        self._memory = memory
        self.module = parse(text)
        self._variables: dict[str, int] = {}
        held = [item for entry in self.module.entries.values() for item in entry.variables]
        for variable in (*self.module.variables, *held):
            if variable.space in ("global", "const"):
                address = memory.allocate(max(variable.bytes, 1))
                memory.write(address, variable.data if variable.data is not None else bytes(variable.bytes))
                self._variables[variable.name] = address
        self._kernels: dict[str, PreparedKernel] = {}

    def kernel(self, entry: str) -> PreparedKernel:
        """Returns a prepared entry.

        Raises:
            SimulationError: there is no such entry, or it uses something that the simulator does not support.
        """
        if entry not in self.module.entries:
            raise SimulationError(f"the module has no entry {entry}; it has {', '.join(self.module.entries) or 'none'}")
        if entry not in self._kernels:
            self._kernels[entry] = PreparedKernel(self.module, self.module.entries[entry], self._variables)
        return self._kernels[entry]

    def launch(
        self,
        entry: str,
        geometry: GridGeometry,
        arguments: Sequence[bytes],
        checks: Checks | None = None,
        observer: Observer | None = None,
    ) -> None:
        """Runs a kernel to its end.

        Args:
            entry: name of the kernel.
            geometry: launch geometry.
            arguments: contents of each parameter.
            checks: the checks to apply.
            observer: receives every memory access.

        Raises:
            SimulationError: the kernel violates the PTX ISA.
        """
        kernel, checks = self.kernel(entry), checks or Checks()
        _check_launch(kernel, geometry, arguments)
        parameters = _parameters(kernel, arguments)
        writes = GlobalWrites(self._memory.size, kernel.global_granule) if checks.double_writes else None
        for blocks in _batches(kernel, geometry):
            batch = Batch(kernel, geometry, blocks, self._memory, parameters, checks, writes, observer)
            with np.errstate(all="ignore"):
                Scheduler(batch).run()


def _check_launch(kernel: PreparedKernel, geometry: GridGeometry, arguments: Sequence[bytes]) -> None:
    function = kernel.function
    wanted = [parameter.bytes for parameter in function.parameters]
    given = [len(argument) for argument in arguments]
    if wanted != given:
        raise SimulationError(f"{function.name} takes parameters of {wanted} bytes, but gets {given}")
    for limit in _LIMITS:
        dims = function.directives.get(limit)
        if dims is None:
            continue
        most = tuple((*dims, 1, 1)[:3])
        exact = limit == "reqntid" and most != geometry.block
        if exact or geometry.threads > int(np.prod(most)):
            raise SimulationError(f"{function.name} declares .{limit} {most}, but is launched with {geometry.block}")
    cluster = function.directives.get("reqnctapercluster")
    if cluster is not None and tuple((*cluster, 1, 1)[:3]) != geometry.cluster:
        raise SimulationError(f"{function.name} requires clusters {cluster}, but is launched with {geometry.cluster}")


def _parameters(kernel: PreparedKernel, arguments: Sequence[bytes]) -> Space:
    space = Space("param", -(-max(kernel.parameter_bytes, 1) // 16) * 16)
    for parameter, contents in zip(kernel.function.parameters, arguments, strict=True):
        place = slice(kernel.offsets[parameter.name], kernel.offsets[parameter.name] + parameter.bytes)
        space.data[place], space.state[place] = np.frombuffer(contents, np.uint8), DEFINED
    return space


def _batches(kernel: PreparedKernel, geometry: GridGeometry) -> list[np.ndarray]:
    """Splits the blocks of a launch into batches that fit the limits, with whole clusters in order of rank."""
    cluster = int(np.prod(geometry.cluster))
    shared = kernel.shared_bytes + geometry.shared_bytes
    threads = -(-geometry.threads // 32) * 32
    at_once = min(_MOST_THREADS // threads, _MOST_SHARED_BYTES // max(shared, 1))
    at_once = max(at_once // cluster, 1) * cluster
    blocks = np.arange(geometry.blocks)
    return [blocks[start : start + at_once] for start in range(0, len(blocks), at_once)]
