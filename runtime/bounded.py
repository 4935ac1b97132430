"""Calls of programs for a range of sizes: inputs go into arrays as large as the bounds, results are cut out of such."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from .program import Program, Shape, aligned_empty
from .report import facts
from .sizes import evaluate, table_of
from .workspace import LoadedProgram, Workspace


def covering(programs: Iterable[Program], sizes: Mapping[str, int]) -> Program | None:
    """The program that does the least in vain among those for ranges that hold the given sizes."""
    found = [program for program in programs if program.bounds is not None and program.bounds.covers(sizes)]
    return min(found, key=lambda program: program.bounds.volume if program.bounds else 0, default=None)


def explained(program: Program) -> str:
    """What a program serves, how many kernels it is of, and why it is there.

    The lines after the first are of kernels that do more than a call needs, where sizes vary.
    """
    kernels = f"{len(program.kernels)} kernels, {program.arena_bytes / 1e6:.1f} MB of scratch memory"
    if program.bounds is None:
        shapes = ", ".join(f"{info.name}={'x'.join(map(str, info.shape)) or 'scalar'}" for info in program.inputs)
        return f"{shapes}: {kernels}; specialised for these shapes, which no range was compiled for"
    ranges = ", ".join(f"{name} {values}" for name, values in program.bounds.ranges.items())
    first = f"{ranges}: {kernels}; one program for all of these sizes, laid out for the greatest"
    return "\n".join([first, *unbounded(program)])


def unbounded(program: Program) -> list[str]:
    """A line for each kernel that does more than a call needs, with its part of the model and the reason."""
    details, found = facts.read(program.facts)["details"], []
    for kernel in program.kernels:
        reasons = details.get(kernel.name, {}).get("unbounded", ())
        names = ", ".join(dict.fromkeys(kernel.ops)) or "no node of the model"
        found += [f"  {kernel.kind} {kernel.name} ({names}) is not bounded: {reason}" for reason in reasons]
    return found


class BoundedCall(LoadedProgram):
    """What calls with inputs of one set of shapes do with a program for more of them.

    Attributes:
        loaded: the program in this process.
    """

    def __init__(self, loaded: LoadedProgram, sizes: Mapping[str, int]) -> None:
        """The call at given sizes."""
        super().__init__(loaded.program, loaded.code, loaded.parameters)
        bounds = loaded.program.bounds
        assert bounds is not None
        self.loaded = loaded
        self._table = table_of(bounds, int(loaded.program.inputs[-1].shape[0]), sizes)
        self._shapes = [tuple(evaluate(item, sizes) for item in shape) for shape in bounds.outputs]

    def run(self, workspace: Workspace, arrays: Sequence[np.ndarray], threads: int) -> list[np.ndarray]:
        """The outputs, new arrays.

        Raises:
            GuardError: a guard says that the outputs mean nothing.
        """
        program = self.program
        buffers = workspace.buffers(self.loaded, _Buffers)
        wide = buffers.outputs
        inputs = [
            array if array.shape == info.shape else buffers.spread(number, array)
            for number, (array, info) in enumerate(zip(arrays, program.inputs, strict=False))
        ]
        outputs = [
            _empty(shape, buffer.dtype) if shape == buffer.shape else buffer
            for shape, buffer in zip(self._shapes, wide, strict=True)
        ]
        guards = [np.empty((), np.bool_) for _ in program.guards]
        workspace.run(self.loaded, [*inputs, self._table], [*outputs, *guards], threads)
        self.checked([*outputs, *guards])
        return [
            array if array is not buffer else array[tuple(map(slice, shape))].copy()
            for array, buffer, shape in zip(outputs, wide, self._shapes, strict=True)
        ]


class _Buffers:
    """Arrays as large as the bounds, for inputs and outputs.

    Those of inputs are zeros wherever they hold no data: the program relies on it.
    """

    def __init__(self, program: Program) -> None:
        self.outputs = [_empty(info.shape, info.dtype) for info in program.outputs]
        self._inputs = [_empty(info.shape, info.dtype) for info in program.inputs[:-1]]
        for array in self._inputs:
            array.fill(0)
        self._held: list[Shape] = [(0,) * array.ndim for array in self._inputs]

    def spread(self, number: int, array: np.ndarray) -> np.ndarray:
        """An input's array in the one as large as the bounds."""
        buffer, held = self._inputs[number], self._held[number]
        if array.shape != held:
            buffer[tuple(map(slice, held))] = 0
            self._held[number] = array.shape
        buffer[tuple(map(slice, array.shape))] = array
        return buffer


def _empty(shape: Sequence[int | str], dtype: np.dtype) -> np.ndarray:
    sizes: Shape = tuple(int(size) for size in shape)
    return aligned_empty(int(np.prod(sizes, dtype=np.int64)) * dtype.itemsize).view(dtype).reshape(sizes)
