"""Calls of programs for a range of sizes: inputs go into arrays as large as the bounds, results are cut out of such."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from .program import Program, Shape, aligned_empty
from .sizes import evaluate
from .workspace import LoadedProgram, Workspace


def covering(programs: Iterable[Program], sizes: Mapping[str, int]) -> Program | None:
    """The program that does the least in vain among those for ranges that hold the given sizes."""
    found = [program for program in programs if program.bounds is not None and program.bounds.covers(sizes)]
    return min(found, key=lambda program: program.bounds.volume if program.bounds else 0, default=None)


def explained(program: Program) -> str:
    """A line on what a program serves, how many kernels it is of, and why it is there."""
    kernels = f"{len(program.kernels)} kernels, {program.arena_bytes / 1e6:.1f} MB of scratch memory"
    if program.bounds is None:
        shapes = ", ".join(f"{info.name}={'x'.join(map(str, info.shape)) or 'scalar'}" for info in program.inputs)
        return f"{shapes}: {kernels}; specialised for these shapes, which no range was compiled for"
    ranges = ", ".join(f"{name} {values}" for name, values in program.bounds.ranges.items())
    return f"{ranges}: {kernels}; one program for all of these sizes, laid out for the greatest"


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
        self._table = np.zeros(int(loaded.program.inputs[-1].shape[0]), np.int64)
        self._table[: len(bounds.table)] = [evaluate(item, sizes) for item in bounds.table]
        self._shapes = [tuple(evaluate(item, sizes) for item in shape) for shape in bounds.outputs]

    def run(self, workspace: Workspace, arrays: Sequence[np.ndarray], threads: int) -> list[np.ndarray]:
        """The outputs, new arrays.

        Raises:
            GuardError: a guard says that the outputs mean nothing.
        """
        program = self.program
        buffers = workspace.buffers(self.loaded, _new_buffers)
        wide = buffers[len(arrays) :]
        inputs = [
            array if array.shape == info.shape else _spread(array, buffer)
            for array, info, buffer in zip(arrays, program.inputs, buffers, strict=False)
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


def _new_buffers(program: Program) -> list[np.ndarray]:
    """Arrays as large as the bounds: for the inputs but the table, then for the outputs.

    Inputs are zeros at first, so that indices in places without data are some that exist.
    """
    inputs = [_empty(info.shape, info.dtype) for info in program.inputs[:-1]]
    for array in inputs:
        array.fill(0)
    return [*inputs, *(_empty(info.shape, info.dtype) for info in program.outputs)]


def _empty(shape: Sequence[int | str], dtype: np.dtype) -> np.ndarray:
    sizes: Shape = tuple(int(size) for size in shape)
    return aligned_empty(int(np.prod(sizes, dtype=np.int64)) * dtype.itemsize).view(dtype).reshape(sizes)


def _spread(array: np.ndarray, buffer: np.ndarray) -> np.ndarray:
    buffer[tuple(map(slice, array.shape))] = array
    return buffer
