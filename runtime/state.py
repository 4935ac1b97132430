"""`State`: inputs to which a model appends, kept in place between calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.errors import InputError
from .arguments import accept, listing
from .execution.input_shapes import check_shapes
from .execution.ranged_call import RangedCall
from .memory import contiguous
from .program import TensorInfo

if TYPE_CHECKING:
    from .execution.workspace import LoadedProgram
    from .specialization.specialization import Specializations


class State:
    """Inputs of a model that it returns with data appended, such as the keys and values of past tokens.

    Their memory has room for the upper bounds of a program's sizes, and a call writes only what is new. A call of a
    program for larger sizes moves them once. Calls of one state must follow each other; an executable may have any
    number of states.

    Attributes:
        names: the inputs, by the names of the outputs that continue them.
    """

    def __init__(
        self,
        code: Specializations,
        outputs: Sequence[TensorInfo],
        threads: int,
        sizes: Mapping[str, int],
    ) -> None:
        """Starts without any data.

        Args:
            code: the code of the model.
            outputs: the model's outputs.
            threads: number of threads of a call.
            sizes: sizes of the inputs' other symbolic dimensions, by name.

        Raises:
            InputError: the model has no such inputs, or a size is missing.
        """
        self._code, self._threads = code, threads
        found = sorted(
            {(item.input, item.output, item.axis) for program in code.own_programs for item in program.appended}
        )
        pairs = {number: (output, axis) for number, output, axis in found if output >= 0}
        if not pairs or any(pairs.get(number) not in (None, (output, axis)) for number, output, axis in found):
            raise InputError(
                "the model returns no input with data appended to it from a program for ranges of sizes; declare the "
                "ranges in `Options.dims`"
            )
        self._outputs = {number: output for number, (output, _) in pairs.items()}
        self._axes = {number: axis for number, (_, axis) in pairs.items()}
        self.names = {outputs[output].name: code.inputs[number].name for number, output in self._outputs.items()}
        self._empty = {
            number: np.empty(_start(code.inputs[number], axis, sizes), code.inputs[number].dtype)
            for number, axis in self._axes.items()
        }
        self._given = [info for number, info in enumerate(code.inputs) if number not in self._axes]
        self.reset()

    def reset(self) -> None:
        """Forgets all data."""
        self._held = dict(self._empty)
        self._kept: dict[int, Any] = {}
        self._program: LoadedProgram | None = None

    @property
    def length(self) -> int:
        """The number of elements along the dimension that grows, such as the number of tokens."""
        return max(array.shape[self._axes[number]] for number, array in self._held.items())

    def truncate(self, length: int) -> None:
        """Forgets all data behind the first `length` elements along the dimension that grows.

        Raises:
            InputError: there are not that many.
        """
        if not 0 <= length <= self.length:
            raise InputError(f"the state has {self.length} elements, so it cannot be cut to {length}")
        for number, array in self._held.items():
            self._held[number] = array[(*[slice(None)] * self._axes[number], slice(length))]

    def put(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Replaces the data, by the names of the inputs; the next call copies it to memory with room for more.

        Raises:
            InputError: an input is missing or unknown, or an array is not of its type and rank.
        """
        infos = {info.name: (number, info) for number, info in enumerate(self._code.inputs) if number in self._axes}
        if arrays.keys() != infos.keys():
            raise InputError(f"the state consists of {', '.join(infos)}, but was given {', '.join(arrays)}")
        self._held = {number: accept(arrays[name], info) for name, (number, info) in infos.items()}
        self._kept, self._program = {}, None

    def resize(self, axis: int, size: int) -> None:
        """Changes the extent of all data along another dimension, such as the number of texts.

        The remaining data stays in place if there is room; the contents of new elements are undefined.
        """
        if all(array.shape[axis] == size for array in self._held.values()):
            return
        rooms = {number: self._room(output) for number, output in self._outputs.items()}
        if any(room is None or room.shape[axis] < size for room in rooms.values()):
            rooms = {number: _extended(array, axis, size) for number, array in self._held.items()}
            self._kept, self._program = {}, None
        for number, array in self._held.items():
            room = rooms[number]
            assert room is not None
            shape = (*array.shape[:axis], size, *array.shape[axis + 1 :])
            self._held[number] = room[tuple(map(slice, shape))]

    def _room(self, output: int) -> np.ndarray | None:
        """Returns the memory of an output as an array of the upper bounds; None before a call has made it."""
        if self._program is None:
            return None
        info = self._program.program.outputs[output]
        return np.ndarray(tuple(map(int, info.shape)), info.dtype, self._kept[output])

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The data, by the names of the inputs: views of memory that later calls change behind a truncated end."""
        return {self._code.inputs[number].name: array for number, array in self._held.items()}

    def __call__(self, **given: Any) -> Any:
        """Runs the model on its other inputs, by name, and keeps the outputs that continue the state.

        Returns:
            The other outputs: one as a `numpy.ndarray`, several as a tuple of them, in the model's order.

        Raises:
            InputError: the inputs do not match the model's inputs, or there is no room for more.
        """
        names = [info.name for info in self._given]
        if sorted(given) != sorted(names):
            raise InputError(f"a call of the state takes {listing(self._given)}, but was given {', '.join(given)}")
        inputs = self._code.inputs
        arrays = [
            self._held[number] if number in self._held else accept(given[info.name], info)
            for number, info in enumerate(inputs)
        ]
        shapes = tuple([array.shape for array in arrays])
        if shapes not in self._code.loaded:
            check_shapes(inputs, shapes)
        loaded = self._code.choose(shapes, arrays)
        if not isinstance(loaded, RangedCall):
            outputs = self._code.run(loaded, list(map(contiguous, arrays)), self._threads)
            self._kept, self._program = {}, None
        else:
            if self._program is not loaded.loaded:
                self._kept, self._program = {}, loaded.loaded
            outputs = self._code.run(loaded, arrays, self._threads, self._kept)
        for number, output in self._outputs.items():
            self._held[number] = outputs[output]
        kept = set(self._outputs.values())
        others = [array for number, array in enumerate(outputs) if number not in kept]
        return others[0] if len(others) == 1 else tuple(others)


def _extended(array: np.ndarray, axis: int, size: int) -> np.ndarray:
    """Returns an array cropped or zero-padded at its end along an axis to a size."""
    found = np.zeros((*array.shape[:axis], size, *array.shape[axis + 1 :]), array.dtype)
    common = (*[slice(None)] * axis, slice(min(size, array.shape[axis])))
    found[common] = array[common]
    return found


def _start(info: TensorInfo, axis: int, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Returns the shape of an input without data.

    Raises:
        InputError: a size is missing.
    """
    shape = []
    for place, dim in enumerate(info.shape):
        if place != axis and isinstance(dim, str) and dim not in sizes:
            raise InputError(f"the state needs the size of dimension '{dim}' of input {info}, as in {{'{dim}': 1}}")
        shape.append(0 if place == axis else int(sizes[dim] if isinstance(dim, str) else dim))
    return tuple(shape)
