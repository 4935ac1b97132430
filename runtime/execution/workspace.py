"""The state of one call of native code: the loaded program, its table of addresses, the arena."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ..memory import addresses, aligned_empty
from ..native import loader, poison
from ..native.thread_pool import THREAD_POOLS
from ..program import Program
from .data_check import guard_error
from .results import cropped, crops_of, shelves_for

T = TypeVar("T")


@dataclass
class Usage:
    """The calls of one program.

    Attributes:
        calls: number of calls. Concurrent calls may be counted as one.
        last: the time of the last call, in seconds of `time.perf_counter`.
    """

    calls: int = 0
    last: float = 0.0


class LoadedProgram:
    """A program in this process: its entry function, its parameters' addresses, and the types of its outputs.

    Attributes:
        reads_layouts: whether inputs of a call may be arrays that are not contiguous.
        usage: counts its calls; those of a program for a range count for all sizes together.
    """

    reads_layouts = False
    usage: Usage

    def __init__(self, program: Program, code: loader.NativeCode, parameters: list[np.ndarray]) -> None:
        self.program, self.code, self.parameters = program, code, parameters
        self.entry = code.entry
        self.addresses = addresses(parameters)
        kinds = [(tuple(int(dim) for dim in info.shape), info.dtype) for info in program.outputs]
        shelves = shelves_for([info.nbytes for info in program.outputs])
        self._outputs = [(shape, dtype, shelf) for (shape, dtype), shelf in zip(kinds, shelves, strict=True)]
        self._crops = [crops_of(count) for count in program.counts]

    def new_outputs(self) -> list[np.ndarray]:
        """Returns new arrays for the outputs of one call."""
        return [
            np.empty(shape, dtype) if shelf is None else shelf.array(shape, dtype)
            for shape, dtype, shelf in self._outputs
        ]

    def run(self, workspace: Workspace, arrays: Sequence[np.ndarray], threads: int) -> list[np.ndarray]:
        """Computes the outputs for inputs of the program's shapes.

        Raises:
            GuardError: a guard reports that the outputs are invalid; a `DataError` if the data is at fault.
        """
        outputs = self.new_outputs()
        status = workspace.run(self, arrays, outputs, threads)
        return self.checked(outputs, status, arrays) if status else outputs

    def checked(self, outputs: list[Any], status: Sequence[Any], inputs: Sequence[Any] = ()) -> list[Any]:
        """Returns the outputs, cropped to the counts.

        Args:
            outputs: the outputs, with room for the most elements.
            status: the guards, then the counts.
            inputs: the inputs, for the message of an error.

        Raises:
            GuardError: a guard reports that the outputs are invalid; a `DataError` if the data is at fault.
        """
        guards = self.program.guards
        for place, reason in enumerate(guards):  # counts come after the guards
            if not status[place]:
                names = (info.name for info in self.program.inputs)
                raise guard_error(reason, dict(zip(names, inputs, strict=False)))
        return cropped(outputs, self._crops, status[len(guards) :]) if self._crops else outputs


def status_of(program: Program) -> list[np.ndarray]:
    """Returns new arrays for the scalars that follow the outputs: the guards, then the counts."""
    guards = [np.empty((), np.bool_) for _ in program.guards]
    return guards + [np.empty((), np.int64) for _ in program.counts]


@dataclass
class _Table:
    slots: Any
    address: int
    status: list[np.ndarray]
    arena: int | None = -1


class Workspace:
    """The private memory of one call at a time: an arena, and a table per program.

    There is one per concurrent call; all programs of a model share them.
    """

    def __init__(self) -> None:
        self._arena = aligned_empty(0)
        self._start = addresses([self._arena])[0]
        self._tables: dict[LoadedProgram, _Table] = {}
        self._buffers: dict[LoadedProgram, Any] = {}

    def buffers(self, loaded: LoadedProgram, make: Callable[[Program], T]) -> T:
        """Returns this workspace's buffers for a program; `make` creates them at first."""
        found = self._buffers.get(loaded)
        if found is None:
            found = self._buffers[loaded] = make(loaded.program)
        return found

    def run(
        self, loaded: LoadedProgram, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
    ) -> Sequence[np.ndarray]:
        """Calls the entry function on inputs and outputs.

        Returns:
            The guards and counts, which the next call overwrites.
        """
        if poison.byte is not None:
            self.poison(loaded, outputs)
        return self.run_at(loaded, addresses([*inputs, *outputs]), threads)

    def poison(self, loaded: LoadedProgram, outputs: Sequence[np.ndarray]) -> None:
        """Fills the memory that a call must write before it reads it."""
        table = self._tables.get(loaded) or self._new_table(loaded)
        poison.fill([self._arena, *outputs, *table.status])

    def run_at(self, loaded: LoadedProgram, places: Sequence[int | None], threads: int) -> Sequence[np.ndarray]:
        """Does the same as `run`, for the addresses of contiguous inputs, then outputs."""
        table = self._tables.get(loaded) or self._new_table(loaded)
        slots = table.slots
        slots[: len(places)] = places
        if table.arena != self._start:
            slots[len(slots) - 2] = table.arena = self._start
        if threads == 1 or not loaded.program.uses_threads:
            loaded.entry(table.address)
            return table.status
        pool = THREAD_POOLS.lend(threads, loaded.code)
        slots[len(slots) - 1] = pool.address
        try:
            loaded.entry(table.address)
        finally:
            slots[len(slots) - 1] = None
            THREAD_POOLS.take_back(threads, pool)
        return table.status

    def _new_table(self, loaded: LoadedProgram) -> _Table:
        program = loaded.program
        if program.arena_bytes > len(self._arena):
            self._arena = aligned_empty(program.arena_bytes)
            self._start = addresses([self._arena])[0]
        status = status_of(program)
        first = len(program.inputs) + len(program.outputs)
        fixed = [*addresses(status), *loaded.addresses]
        slots = (ctypes.c_void_p * (first + len(fixed) + 2))()
        slots[first:-2] = fixed
        return self._tables.setdefault(loaded, _Table(slots, ctypes.addressof(slots), status))
