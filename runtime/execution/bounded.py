"""Calls of programs for a range of sizes: inputs are padded to the upper bounds, outputs are cropped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...sizes.bounds import table_of
from ...sizes.expressions import evaluate
from ...support.wording import quantity
from ..memory import aligned_empty, aligned_zeros
from ..program import Program, Shape, TensorInfo
from .results import Shelf
from .workspace import LoadedProgram, Workspace


def covering(programs: Iterable[Program], sizes: Mapping[str, int]) -> Program | None:
    """Returns the program with the least redundant work among those whose ranges contain the given sizes."""
    found = [program for program in programs if program.bounds is not None and program.bounds.covers(sizes)]
    return min(found, key=lambda program: program.bounds.volume if program.bounds else 0, default=None)


def explained(program: Program) -> str:
    """Describes the sizes that a program serves, its kernels, and why it was compiled.

    The lines after the first name the kernels that do more work than a call needs when sizes vary.
    """
    kernels = f"{quantity(len(program.kernels), 'kernel')}, {program.arena_bytes / 1e6:.1f} MB of scratch memory"
    if program.bounds is None:
        shapes = ", ".join(f"{info.name}={'x'.join(map(str, info.shape)) or 'scalar'}" for info in program.inputs)
        return f"{shapes}: {kernels}; specialised for these shapes, which no compiled range contains"
    ranges = ", ".join(f"{name} {values}" for name, values in program.bounds.ranges.items())
    first = f"{ranges}: {kernels}; one program for all of these sizes, laid out for the largest"
    return "\n".join([first, *unbounded(program)])


def unbounded(program: Program) -> list[str]:
    """Returns a line for each kernel that does more work than a call needs, with its nodes and the reason."""
    facts, found = program.compile_facts, []
    for kernel in program.kernels:
        reasons = facts.details_of(kernel.name).unbounded
        names = ", ".join(dict.fromkeys(kernel.ops)) or "no node of the model"
        found += [f"  {kernel.kind} {kernel.name} ({names}) is not bounded: {reason}" for reason in reasons]
    return found


class BoundedCall(LoadedProgram):
    """A call, with inputs of one set of shapes, of a program for a range of sizes.

    Attributes:
        loaded: the program in this process.
        results: the shapes of the outputs.
    """

    def __init__(self, loaded: LoadedProgram, sizes: Mapping[str, int]) -> None:
        """Prepares the call for the given sizes."""
        super().__init__(loaded.program, loaded.code, loaded.parameters)
        bounds = loaded.program.bounds
        assert bounds is not None
        self.loaded = loaded
        self.results: list[Shape] = [tuple(evaluate(item, sizes) for item in shape) for shape in bounds.outputs]
        self._table = table_of(bounds, int(loaded.program.inputs[-1].shape[0]), sizes)
        self._guards = len(loaded.program.guards)

    def run(self, workspace: Workspace, arrays: Sequence[np.ndarray], threads: int) -> list[np.ndarray]:
        """Returns the outputs as new arrays.

        Raises:
            GuardError: a guard reports that the outputs are invalid.
        """
        buffers = workspace.buffers(self.loaded, _Buffers)
        if buffers.call is not self:
            buffers.enter(self, [array.shape for array in arrays])
        inputs = [*arrays, self._table]
        for number, place in buffers.inputs:
            place.part[...] = arrays[number]
            inputs[number] = place.whole
        outputs = [
            _new(kind) if whole is None else whole
            for whole, kind in zip(buffers.wholes, self._outputs, strict=False)  # guards come after the outputs
        ]
        written = [*outputs, *(np.empty((), np.bool_) for _ in range(self._guards))] if self._guards else outputs
        workspace.run(self.loaded, inputs, written, threads)
        if self._guards:
            self.checked(written, arrays)
        for number, place in buffers.outputs:
            _, dtype, shelf = self._outputs[number]
            if shelf is None:
                outputs[number] = place.part.copy()
                continue
            # The shelf's array has room for the largest result; only the pages of this result are ever touched.
            outputs[number] = shelf.array(self.results[number], dtype)
            outputs[number][...] = place.part
        return outputs


def _new(kind: tuple[Shape, np.dtype, Shelf | None]) -> np.ndarray:
    shape, dtype, shelf = kind
    return np.empty(shape, dtype) if shelf is None else shelf.array(shape, dtype)


class _Place(NamedTuple):
    """An array with the upper bounds as its shape, and the part of it that holds data in a call."""

    whole: np.ndarray
    part: np.ndarray


class _Buffers:
    """Arrays with the upper bounds as shapes, for the inputs and outputs that are smaller in a call.

    Input arrays are zero outside the data; the program relies on it.

    Attributes:
        call: the call for whose sizes the places were made.
        inputs: places of the inputs that are smaller than the bounds, with their numbers.
        outputs: places of the outputs that are smaller than the bounds, with their numbers.
        wholes: for each output the array it is sliced from; None for outputs as large as the bounds.
    """

    def __init__(self, program: Program) -> None:
        self.call: BoundedCall | None = None
        self.inputs: list[tuple[int, _Place]] = []
        self.outputs: list[tuple[int, _Place]] = []
        self.wholes: list[np.ndarray | None] = []
        self._wide_outputs = [_wide(info, aligned_empty) for info in program.outputs]
        self._wide_inputs = [_wide(info, aligned_zeros) for info in program.inputs[:-1]]
        self._held: list[Shape] = [(0,) * array.ndim for array in self._wide_inputs]

    def enter(self, call: BoundedCall, shapes: Sequence[Shape]) -> None:
        """Makes the places for the sizes of a call."""
        for number, (array, shape) in enumerate(zip(self._wide_inputs, shapes, strict=True)):
            held = self._held[number]
            if shape not in (held, array.shape):
                array[tuple(map(slice, held))] = 0
                self._held[number] = shape
        self.inputs = _places(self._wide_inputs, shapes)
        self.outputs = _places(self._wide_outputs, call.results)
        self.wholes = [None] * len(self._wide_outputs)
        for number, place in self.outputs:
            self.wholes[number] = place.whole
        self.call = call


def _places(wholes: Sequence[np.ndarray], shapes: Sequence[Shape]) -> list[tuple[int, _Place]]:
    return [
        (number, _Place(whole, whole[tuple(map(slice, shape))]))
        for number, (whole, shape) in enumerate(zip(wholes, shapes, strict=True))
        if whole.shape != shape
    ]


def _wide(info: TensorInfo, make: Callable[[int], np.ndarray]) -> np.ndarray:
    sizes: Shape = tuple(int(size) for size in info.shape)
    return make(info.nbytes).view(info.dtype).reshape(sizes)
