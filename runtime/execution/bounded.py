"""Calls of programs for a range of sizes: inputs are padded to the upper bounds, outputs are cropped.

Inputs that a program appends to stay where they are, and the outputs with more behind their data are parts of arrays
of the upper bounds, with gaps between them; see
`layouts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...sizes.bounds import table_of
from ...sizes.expressions import evaluate
from ..memory import aligned_empty, aligned_zeros
from ..program import Program, Shape, TensorInfo
from .layouts import Layouts
from .results import Shelf
from .workspace import LoadedProgram, Workspace


def covering(programs: Iterable[Program], sizes: Mapping[str, int]) -> Program | None:
    """Returns the program with the least redundant work among those whose ranges contain the given sizes."""
    found = [program for program in programs if program.bounds is not None and program.bounds.covers(sizes)]
    return min(found, key=lambda program: program.bounds.volume if program.bounds else 0, default=None)


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
        self.reads_layouts = len(loaded.program.appended) > 0
        table = table_of(bounds, int(loaded.program.inputs[-1].shape[0]), sizes)
        self._layouts = Layouts(loaded.program.appended, table)
        self._calls, self._hot_calls = 0, 0
        self._when_hot: Callable[[], None] | None = None

    def watch(self, calls: int, when_hot: Callable[[], None]) -> None:
        """Calls a function, which must return at once, when there were at least this many calls at these sizes."""
        self._hot_calls, self._when_hot = calls, when_hot

    def run(
        self,
        workspace: Workspace,
        arrays: Sequence[np.ndarray],
        threads: int,
        kept: dict[int, np.ndarray] | None = None,
    ) -> list[np.ndarray]:
        """Returns the outputs as new arrays.

        Args:
            workspace: memory of the call.
            arrays: the inputs.
            threads: number of threads.
            kept: arrays of the upper bounds for the outputs that continue inputs, by number, if the inputs are parts of
                them: they are overwritten. If empty, the new arrays are stored there.

        Raises:
            GuardError: a guard reports that the outputs are invalid.
        """
        if self._when_hot is not None:
            self._calls += 1
            if self._calls >= self._hot_calls:
                self._when_hot, when_hot = None, self._when_hot
                if when_hot is not None:  # else another thread was faster
                    when_hot()
        buffers = workspace.buffers(self.loaded, _Buffers)
        if buffers.call is not self:
            buffers.enter(self, [array.shape for array in arrays])
        inputs = list(arrays)
        inputs.append(self._layouts.fill(inputs, in_place=bool(kept)))
        for number, place in buffers.inputs:
            place.part[...] = arrays[number]
            inputs[number] = place.whole
        wholes = (
            buffers.wholes if not kept else [kept.get(number, whole) for number, whole in enumerate(buffers.wholes)]
        )
        outputs = [_new(kind) if whole is None else whole for whole, kind in zip(wholes, self._outputs, strict=True)]
        if kept is not None and not kept:
            kept |= {item.output: outputs[item.output] for item in self.program.appended if item.output >= 0}
        status = workspace.run(self.loaded, inputs, outputs, threads)
        for number, part in buffers.parts:
            outputs[number] = outputs[number][part]
        for number, place in buffers.outputs:
            _, dtype, shelf = self._outputs[number]
            if shelf is None:
                outputs[number] = place.part.copy()
                continue
            # The shelf's array has room for the largest result; only the pages of this result are ever touched.
            outputs[number] = shelf.array(self.results[number], dtype)
            outputs[number][...] = place.part
        return self.checked(outputs, status, arrays) if status else outputs


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
        parts: the numbers of outputs that are returned as parts of new arrays of the upper bounds, and the parts.
        wholes: for each output the array it is sliced from; None for outputs in new arrays.
    """

    def __init__(self, program: Program) -> None:
        self.call: BoundedCall | None = None
        self.inputs: list[tuple[int, _Place]] = []
        self.outputs: list[tuple[int, _Place]] = []
        self.parts: list[tuple[int, tuple[slice, ...]]] = []
        self.wholes: list[np.ndarray | None] = []
        read_there = {item.input for item in program.appended}
        self._grown = {item.output for item in program.appended}
        self._wide_outputs = [
            None if number in self._grown else _wide(info, aligned_empty) for number, info in enumerate(program.outputs)
        ]
        self._wide_inputs = [
            None if number in read_there else _wide(info, aligned_zeros)
            for number, info in enumerate(program.inputs[:-1])
        ]
        self._bounds = [tuple(map(int, info.shape)) for info in program.outputs]
        self._held: list[Shape] = [(0,) * len(info.shape) for info in program.inputs[:-1]]

    def enter(self, call: BoundedCall, shapes: Sequence[Shape]) -> None:
        """Makes the places for the sizes of a call."""
        for number, (array, shape) in enumerate(zip(self._wide_inputs, shapes, strict=True)):
            held = self._held[number]
            if array is not None and shape not in (held, array.shape):
                array[tuple(map(slice, held))] = 0
                self._held[number] = shape
        self.inputs = _places(self._wide_inputs, shapes)
        self.outputs = _places(self._wide_outputs, call.results)
        self.parts = [
            (number, tuple(map(slice, shape)))
            for number, shape in enumerate(call.results)
            if number in self._grown and shape != self._bounds[number]
        ]
        self.wholes = [None] * len(self._wide_outputs)
        for number, place in self.outputs:
            self.wholes[number] = place.whole
        self.call = call


def _places(wholes: Sequence[np.ndarray | None], shapes: Sequence[Shape]) -> list[tuple[int, _Place]]:
    return [
        (number, _Place(whole, whole[tuple(map(slice, shape))]))
        for number, (whole, shape) in enumerate(zip(wholes, shapes, strict=True))
        if whole is not None and whole.shape != shape
    ]


def _wide(info: TensorInfo, make: Callable[[int], np.ndarray]) -> np.ndarray:
    sizes: Shape = tuple(int(size) for size in info.shape)
    return make(info.nbytes).view(info.dtype).reshape(sizes)
