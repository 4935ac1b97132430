"""Calls of programs for a range of sizes: inputs are padded to the upper bounds, outputs are cropped.

An output whose elements are the first ones of the array of the upper bounds is not copied: a result of a batch of one,
for example, whose number of rows varies.

Inputs that a program appends to stay where they are, and the outputs with data appended are parts of arrays
of the upper bounds, with gaps between them; see `layouts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...sizes.bounds import table_of
from ...sizes.expressions import evaluate
from ..memory import addresses, aligned_empty, aligned_zeros
from ..native import poison
from ..program import Program, Shape, TensorInfo
from .layouts import Layouts
from .results import shelves_for
from .workspace import LoadedProgram, Workspace


def covering(programs: Iterable[Program], sizes: Mapping[str, int]) -> Program | None:
    """Returns the program with the least redundant work among those whose ranges contain the given sizes."""
    found = [program for program in programs if program.bounds is not None and program.bounds.covers(sizes)]
    return min(found, key=lambda program: program.bounds.volume if program.bounds else 0, default=None)


class RangedCall(LoadedProgram):
    """A call, with inputs of one set of shapes, of a program for a range of sizes.

    Attributes:
        loaded: the program in this process.
        results: the shapes of the outputs.
        cropped: the numbers of the outputs that a call copies from larger arrays, or that continue inputs.
    """

    def __init__(self, loaded: LoadedProgram, sizes: Mapping[str, int]) -> None:
        """Prepares the call for the given sizes."""
        super().__init__(loaded.program, loaded.code, loaded.parameters)
        program, bounds = loaded.program, loaded.program.bounds
        assert bounds is not None
        self.loaded = loaded
        self.results: list[Shape] = [tuple(evaluate(item, sizes) for item in shape) for shape in bounds.outputs]
        self.reads_layouts = len(program.appended) > 0
        grown = sorted({item.output for item in program.appended if item.output >= 0})
        shelves = shelves_for([program.outputs[number].nbytes for number in grown], least=0)
        self._grown = [
            (number, shelf, self.results[number], self._outputs[number][1], _strides(*self._outputs[number][:2]))
            for number, shelf in zip(grown, shelves, strict=True)
            if shelf is not None
        ]
        self._whole = [
            (number, result, dtype, shelf)
            for number, (result, (shape, dtype, shelf)) in enumerate(zip(self.results, self._outputs, strict=True))
            if number not in grown and (shape == result or (shelf is not None and _is_first_part(result, shape)))
        ]
        whole = {number for number, *_ in self._whole}
        self.cropped = [number for number in range(len(self.results)) if number not in whole]
        self._table = table_of(bounds, int(program.inputs[-1].shape[0]), sizes)
        self._layouts = Layouts(program.appended, self._table)
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
            kept: memory of the outputs that continue inputs, by number, if the inputs are parts of it: it is
                overwritten. If empty, the new memory is stored there.

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
        inputs, in_place = [*arrays, self._table], bool(kept)
        if self.reads_layouts:
            inputs[-1] = self._layouts.fill(inputs, in_place=in_place)
        for number, whole, part in buffers.inputs:
            part[...] = inputs[number]
            inputs[number] = whole
        outputs: list[Any] = buffers.wholes.copy()
        for number, shape, dtype, shelf in self._whole:  # a block of a shelf has room for the largest result
            outputs[number] = np.empty(shape, dtype) if shelf is None else shelf.array(shape, dtype)
        for number, shelf, shape, dtype, strides in self._grown:
            block = kept[number] if in_place and kept is not None else shelf.block()
            outputs[number] = np.ndarray(shape, dtype, block, 0, strides)
            if kept is not None:
                kept[number] = block
        if poison.byte is not None:
            grown = {number for number, *_ in self._grown}
            new = [array for number, array in enumerate(outputs) if number not in grown]
            workspace.poison(self.loaded, new if in_place else new + [outputs[number].base for number in grown])
        status = workspace.run_at(self.loaded, addresses([*inputs, *outputs]), threads)
        for number, _, part in buffers.outputs:
            _, dtype, shelf = self._outputs[number]
            if shelf is None:
                outputs[number] = part.copy()
                continue
            # The array has room for the largest result, but only the pages of this result are touched and take memory.
            outputs[number] = shelf.array(self.results[number], dtype)
            outputs[number][...] = part
        return self.checked(outputs, status, arrays) if status else outputs


class _Buffers:
    """Arrays with the upper bounds as shapes, for the inputs and outputs that are smaller in a call.

    Input arrays are zero outside the data; the program relies on it.

    Attributes:
        call: the call for whose sizes the parts were made.
        inputs: the numbers of the inputs that are smaller than the bounds, with the arrays and their parts with data.
        outputs: the same of the outputs.
        wholes: for each output the array that a call writes; empty for those in new arrays.
    """

    def __init__(self, program: Program) -> None:
        self.call: RangedCall | None = None
        self.inputs: list[_Place] = []
        self.outputs: list[_Place] = []
        read_there = {item.input for item in program.appended}
        grown = {item.output for item in program.appended}
        self._wide_inputs = [
            None if number in read_there else _wide(info, aligned_zeros)
            for number, info in enumerate(program.inputs[:-1])
        ]
        self._wide_outputs = [
            None if number in grown else _wide(info, aligned_empty) for number, info in enumerate(program.outputs)
        ]
        self.wholes = [np.empty(0)] * len(program.outputs)
        self._held: list[Shape] = [(0,) * len(info.shape) for info in program.inputs[:-1]]

    def enter(self, call: RangedCall, shapes: Sequence[Shape]) -> None:
        """Makes the parts for the sizes of a call."""
        for number, (array, shape) in enumerate(zip(self._wide_inputs, shapes, strict=True)):
            held = self._held[number]
            if array is not None and shape not in (held, array.shape):
                array[tuple(map(slice, held))] = 0
                self._held[number] = shape
        self.inputs = _places(self._wide_inputs, shapes)
        self.outputs = [place for place in _places(self._wide_outputs, call.results) if place[0] in call.cropped]
        for number, whole, _ in self.outputs:
            self.wholes[number] = whole
        self.call = call


_Place = tuple[int, np.ndarray, np.ndarray]


def _places(wholes: Sequence[np.ndarray | None], shapes: Sequence[Shape]) -> list[_Place]:
    return [
        (number, whole, whole[tuple(map(slice, shape))])
        for number, (whole, shape) in enumerate(zip(wholes, shapes, strict=True))
        if whole is not None and whole.shape != shape
    ]


def _is_first_part(part: Shape, whole: Shape) -> bool:
    """Returns whether a part at the start of an array is contiguous in it."""
    axis = next((axis for axis, size in enumerate(part) if size != 1), len(part))
    return part[axis + 1 :] == whole[axis + 1 :]


def _wide(info: TensorInfo, make: Callable[[int], np.ndarray]) -> np.ndarray:
    sizes: Shape = tuple(int(size) for size in info.shape)
    return make(info.nbytes).view(info.dtype).reshape(sizes)


def _strides(shape: Shape, dtype: np.dtype) -> tuple[int, ...]:
    strides = [dtype.itemsize]
    for size in shape[:0:-1]:
        strides.append(strides[-1] * size)
    return tuple(reversed(strides))
