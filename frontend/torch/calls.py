"""Calls of compiled programs on torch tensors: code gets addresses, and torch owns the memory of the results."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch._C._dynamo.guards import _empty_strided_cpu as _empty_strided

from ...runtime.artefact.reader import read
from ...runtime.artefact.writer import encoded
from ...runtime.compiled_model import CompiledModel
from ...runtime.executable import Executable
from ...runtime.execution.workspace import LoadedProgram
from ...runtime.native import poison
from ...runtime.specialization.interfaces import HybridModel
from .eager_piece import EagerPiece
from .live import LiveProgram
from .piece import inverse, layout_of
from .tensors import as_array, as_tensor, torch_dtype

_UNSAVED = {"_program": None, "_failed": None, "_eager": None}
"""Fields that another process does not have: the program, which torch cannot write to files, and what it is for."""

_address, _thread_count = torch.Tensor.data_ptr, torch.get_num_threads


class _Prepared(NamedTuple):
    """Code for some sizes, and the shape, strides and element type of each output."""

    loaded: LoadedProgram
    kinds: list[tuple[Any, Any, torch.dtype]]


class TensorCall:
    """A compiled piece of a graph as a function of tensors and numbers, in the order of the graph's inputs.

    Element types, sizes and strides are those for which torch made the graph: its guards have checked them.

    Attributes:
        executable: the code.
    """

    def __init__(
        self, executable: Executable, program: LiveProgram, failed: Callable[[Exception], None] | None = None
    ) -> None:
        """Prepares calls.

        Args:
            executable: the compiled program.
            program: the program.
            failed: reports an error of a call, whose ops torch runs then; without it, the error is raised.
        """
        self.executable = executable
        self._program, self._failed = program if failed is not None else None, failed
        self._eager: EagerPiece | None = None
        layout = layout_of(program.exported)
        items = [item for item in program.signature.inputs if item.kind in ("input", "size")]
        tensors = iter(layout.inputs)
        places = [*range(len(items) - len(layout.carried)), *(carried.place for carried in layout.carried)]
        taken = []
        for place, item in zip(places, items, strict=True):
            is_tensor = isinstance(program.signature.value(item.name), torch.Tensor)
            order = next(tensors) if is_tensor else None
            if item.kind == "input":
                taken.append((place, is_tensor, order))
        self._places = [place for place, _, _ in taken]
        self._numbers = [
            (number, torch_dtype(executable.inputs[number].dtype))
            for number, (_, is_tensor, _) in enumerate(taken)
            if not is_tensor
        ]
        self._carriers = dict(enumerate(layout.carried, len(taken) - len(layout.carried)))
        self._orders = [(number, order) for number, (_, _, order) in enumerate(taken) if order is not None]
        is_given = len(taken) == len(items) and not layout.carried
        self._is_plain_input = is_given and not self._numbers and not self._orders
        self._code = executable.code
        self._varying = [number for number, info in enumerate(executable.inputs) if not info.is_static]
        self._checked = [
            number
            for number, (place, is_tensor, _) in enumerate(taken)
            if is_tensor and place not in layout.static and number not in self._carriers
        ]
        self._results = [None if order is None else inverse(order) for order in layout.outputs]
        numbers = [item.is_number for item in program.signature.returned]
        self._is_number = numbers
        self._is_plain = not any(numbers)
        self._prepared: dict[Any, _Prepared] = {}
        # Inputs whose element type differs from the graph's: torch's rules for some ops differ from the ops themselves.
        self._converted: list[tuple[int, torch.dtype]] = []

    def __getstate__(self) -> dict[str, Any]:
        """The facts of calls, with the code as an artefact.

        Raises:
            PicklingError: some of the code has not been compiled, or PyTorch runs ops of the piece.
        """
        found = self.executable.uncompiled
        if found:
            raise pickle.PicklingError(f"{self.executable.name} cannot be saved: {'; '.join(found)}")
        return {
            **vars(self),
            "executable": encoded(self.executable.stored()),
            "_code": None,
            "_prepared": {},
            **_UNSAVED,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.executable = Executable(CompiledModel.of(read(state["executable"])), None)
        self._code = self.executable.code

    def __call__(self, *given: Any) -> tuple[Any, ...]:
        """Runs the code; the results are new tensors."""
        return self.run(list(given))

    def run(self, tensors: list[Any]) -> tuple[Any, ...]:
        """Does the same for a list of arguments, which it may change."""
        try:
            return self._run(tensors)
        except Exception as error:  # compiled code must not end a program that torch can run
            if self._failed is None or self._program is None:
                raise
            self._failed(error)
            self._eager = self._eager or EagerPiece(self._program)
            return self._eager(tensors)

    def _run(self, tensors: list[Any]) -> tuple[Any, ...]:
        if self._is_plain_input:
            for number in self._checked:
                if not tensors[number].is_contiguous():
                    tensors[number] = tensors[number].contiguous()
        else:
            tensors = self._arranged(tensors)
        for number, dtype in self._converted:
            tensors[number] = tensors[number].to(dtype)
        prepared = self._prepared.get(tuple([tensors[number].shape for number in self._varying]))
        if prepared is None:
            self._convert(tensors)
            prepared = self._prepare(tensors)
            if prepared is None:
                return self._on_arrays(tensors)
        addresses = list(map(_address, tensors))
        outputs = [_empty_strided(*kind) for kind in prepared.kinds]
        addresses += map(_address, outputs)
        self._code.run_at(prepared.loaded, addresses, _thread_count())
        return tuple(outputs)

    def _arranged(self, given: Sequence[Any]) -> list[Any]:
        """The arguments that the code takes: contiguous tensors."""
        tensors = [given[place] for place in self._places]
        for number, dtype in self._numbers:
            tensors[number] = torch.tensor(tensors[number], dtype=dtype)
        for number, carried in self._carriers.items():
            tensors[number] = carried.tensor(tensors[number])
        for number, order in self._orders:
            tensors[number] = tensors[number].permute(order)
        for number in self._checked:
            if not tensors[number].is_contiguous():
                tensors[number] = tensors[number].contiguous()
        return tensors

    def _convert(self, tensors: list[torch.Tensor]) -> None:
        """Converts inputs of other element types than the code's, in this call and in later ones."""
        for number, info in enumerate(self.executable.inputs):
            dtype = torch_dtype(info.dtype)
            if tensors[number].dtype != dtype:
                tensors[number] = tensors[number].to(dtype)
                self._converted.append((number, dtype))

    def _prepare(self, tensors: Sequence[torch.Tensor]) -> _Prepared | None:
        """Compiles and loads the code for some sizes; returns none if calls of it need arrays."""
        arrays = list(map(_array_of, tensors))
        loaded = self._code.choose(tuple([array.shape for array in arrays]), arrays)
        # Only the exact class: subclasses pad, crop, or run elsewhere.
        if type(loaded) is not LoadedProgram or loaded.program.contents or loaded.program.counts or not self._is_plain:
            return None
        if poison.byte is not None:
            return None
        kinds = []
        for info, order in zip(loaded.program.outputs, self._results, strict=True):
            shape = tuple(int(size) for size in info.shape)
            strides = _strides_of(shape)
            if order is not None:
                shape, strides = tuple(shape[axis] for axis in order), tuple(strides[axis] for axis in order)
            kinds.append((shape, strides, torch_dtype(info.dtype)))
        key = tuple([tensors[number].shape for number in self._varying])
        return self._prepared.setdefault(key, _Prepared(loaded, kinds))

    def _on_arrays(self, tensors: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        """Runs code that needs arrays: because it pads inputs or crops outputs, or because the model runs in steps."""
        arrays = list(map(_array_of, tensors))
        chosen: Any = self._code.choose(tuple([array.shape for array in arrays]), arrays)
        if isinstance(chosen, HybridModel):
            made = chosen.run_tensors(tensors)
        else:
            made = [as_tensor(array) for array in self._code.run(chosen, arrays, _thread_count())]
        results = []
        for tensor, is_number, order in zip(made, self._is_number, self._orders_of_results(), strict=True):
            if is_number:
                results.append(tensor.item() if isinstance(tensor, torch.Tensor) else tensor)
            else:
                results.append(tensor if order is None else tensor.permute(order))
        return tuple(results)

    def _orders_of_results(self) -> list[Any]:
        orders = iter(self._results)
        return [None if is_number else next(orders) for is_number in self._is_number]


def _array_of(tensor: torch.Tensor) -> np.ndarray:
    array = as_array(tensor)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
