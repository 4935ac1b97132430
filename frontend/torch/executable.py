"""`TorchExecutable`: a compiled module as a callable on tensors of torch."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ...runtime.compiled_model import CompiledModel
from ...runtime.executable import Executable
from ...support.errors import InputError
from .live import LiveProgram
from .signature import tensor_of
from .tensors import as_array, as_tensor


class TorchExecutable(Executable):
    """A compiled module of torch. A call takes and returns what the module's `forward` does.

    Tensors are read where they are, and those returned are new. Buffers that the module changes are changed in the
    module itself. Arrays of numpy may stand for tensors; if all of them do, those returned are arrays.

    `save` writes an artefact that runs without torch; there, state is an input and an output. A copy, or what a pickle
    restores, is an `Executable` on arrays.
    """

    def __init__(self, model: CompiledModel, threads: int | None, live: LiveProgram) -> None:
        """Makes native code callable on tensors.

        Args:
            model: the model and its code.
            threads: number of threads of a call; by default the number of cores available to this process.
            live: the program that was compiled.
        """
        super().__init__(model, threads)
        self._interface = live.interface
        self._in_spec: Any = live.exported.call_spec.in_spec
        self._out_spec: Any = live.exported.call_spec.out_spec
        self._state = {
            item.target: tensor_of(live.exported, item.target)
            for item in self._interface.inputs
            if item.kind == "state"
        }
        self._known_shapes: set[tuple[tuple[int, ...], ...]] = set()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the module.

        Raises:
            InputError: the arguments do not have the structure, types or sizes for which the module was exported.
        """
        flat = self._flattened(args, kwargs)
        arrays, has_tensors = [], not any(isinstance(value, np.ndarray) for value in flat)
        for item in self._interface.inputs:
            if item.kind == "weight":
                continue
            value = self._state[item.target] if item.kind == "state" else flat[item.position]
            if item.kind == "constant":
                _check_constant(item.name, item.constant, value)
                continue
            has_tensors |= item.kind != "state" and isinstance(value, torch.Tensor)
            arrays.append(_array_of(value, item.name))
        shapes = tuple([array.shape for array in arrays])
        if shapes not in self._known_shapes:
            self._check_sizes(shapes)
        made = super().__call__(*arrays)
        results = iter(made if isinstance(made, tuple) else (made,))
        leaves = []
        for output in self._interface.outputs:
            if output.kind == "constant":
                leaves.append(output.constant)
                continue
            array = next(results)
            if output.kind == "state":
                self._state[output.target].copy_(as_tensor(array))
            elif output.kind == "mutation":
                _write(flat[self._position(output.target)], array)
            elif output.is_number:
                leaves.append(array.item())
            else:
                leaves.append(as_tensor(array) if has_tensors and isinstance(array, np.ndarray) else array)
        return pytree.tree_unflatten(leaves, self._out_spec)

    def _flattened(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The leaves of the arguments.

        Raises:
            InputError: they have another structure than the example arguments.
        """
        names = self._in_spec.child(1).context if len(self._in_spec.children()) == 2 else []
        ordered = {name: kwargs[name] for name in names if name in kwargs} if set(names) == set(kwargs) else kwargs
        flat, spec = pytree.tree_flatten((args, ordered))
        if spec != self._in_spec:
            raise InputError(
                f"{self.name}: the arguments are not structured as those that it was exported with: expected "
                f"{_structure(self._in_spec)}, but got {_structure(spec)}"
            )
        return flat

    def _check_sizes(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        """Checks sizes against the range of each dynamic dimension.

        Raises:
            InputError: a size is out of its range.
        """
        for info, shape in zip(self.inputs, shapes, strict=True):
            for dim, size in zip(info.shape, shape, strict=False):
                low, high = self._interface.ranges.get(str(dim), (0, None))
                if size < low or (high is not None and size > high):
                    limits = f"at least {low}" if high is None else f"from {low} to {high}"
                    raise InputError(f"input '{info.name}': the size of {dim} must be {limits}, but is {size} ({info})")
        self._known_shapes.add(shapes)

    def _position(self, name: str) -> int:
        return next(item.position for item in self._interface.inputs if item.name == name)


def _array_of(value: Any, name: str) -> Any:
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu":
            raise InputError(f"input '{name}' must be on the CPU, but is on {value.device}")
        return as_array(value)
    if isinstance(value, bool | int | float):
        return np.array(value)
    return value


def _check_constant(name: str, expected: Any, given: Any) -> None:
    if given is expected or given == expected:
        return
    raise InputError(f"argument '{name}' was {expected!r} when the module was exported, and cannot be {given!r}")


def _write(target: Any, array: np.ndarray) -> None:
    """Writes the changed contents of an argument into it."""
    if isinstance(target, torch.Tensor):
        target.copy_(as_tensor(array))
    else:
        target[...] = array


def _structure(spec: Any) -> str:
    return str(pytree.tree_unflatten(["*"] * spec.num_leaves, spec)).replace("'*'", "*")
