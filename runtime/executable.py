"""`Executable`: a compiled model as a callable on numpy arrays."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import artefact, host, loader
from .errors import ArtefactError, InputError, ShapeError
from .program import ALIGNMENT, Program, Shape, TensorInfo, aligned_empty, is_splat
from .workspace import LoadedProgram, Workspace, address

Specialize = Callable[[tuple[Shape, ...]], Program]
Outputs = np.ndarray | tuple[np.ndarray, ...]


class Executable:
    """A compiled model. Calls may come from any number of threads at once.

    Attributes:
        inputs: what a call takes; dimensions that may vary are symbols.
        outputs: what a call gives.
        threads: how many threads one call uses.
        source: the model itself; None where it is not at hand in one piece.
    """

    def __init__(
        self,
        inputs: Sequence[TensorInfo],
        outputs: Sequence[TensorInfo],
        programs: Iterable[Program] = (),
        *,
        specialize: Specialize | None = None,
        threads: int | None = None,
        name: str = "model",
        source: artefact.Source | None = None,
    ) -> None:
        """Makes native code callable.

        Args:
            inputs: the model's inputs, in order.
            outputs: the model's outputs, in order.
            programs: the code compiled so far.
            specialize: compiles for further input shapes, given in input order.
            threads: how many threads a call uses; by default as many as there are cores for this process.
            name: the model's name.
            source: the model itself, for `save`; None where it cannot be kept in one piece.
        """
        self.name = name
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.threads = threads if threads is not None else available_cores()
        self._specialize = specialize
        self.source = source
        self._lock = threading.Lock()
        self._memory: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._idle: list[Workspace] = []
        self._programs = {program.input_shapes: program for program in programs}
        self._loaded: dict[tuple[Shape, ...], LoadedProgram] = {}

    @property
    def programs(self) -> tuple[Program, ...]:
        """The code at hand, one program for each set of input shapes."""
        return tuple(self._programs.copy().values())

    @property
    def peak_bytes(self) -> int:
        """The most scratch memory that a call needs beside its inputs, outputs and parameters."""
        return max((program.arena_bytes for program in self.programs), default=0)

    def __call__(self, *args: Any, **kwargs: Any) -> Outputs:
        """Runs the model on numpy arrays, or anything with `__dlpack__`, by position or by name.

        Returns:
            The output, or a tuple of them in the model's order where there are several. They are new arrays.

        Raises:
            InputError: the inputs are not what the model takes.
            GuardError: their contents lead the model where it cannot go with inputs of these shapes.
        """
        if kwargs or len(args) != len(self.inputs):
            args = self._in_order(args, kwargs)
        arrays = [_accept(value, info) for value, info in zip(args, self.inputs, strict=True)]
        shapes = tuple([array.shape for array in arrays])
        loaded = self._loaded.get(shapes) or self._ready(shapes)
        outputs = loaded.new_outputs()
        try:
            workspace = self._idle.pop()
        except IndexError:
            workspace = Workspace()
        try:
            workspace.run(loaded, arrays, outputs, self.threads)
        finally:
            self._idle.append(workspace)
        if loaded.program.guards:
            outputs = loaded.checked(outputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def prepare(self, shapes: Mapping[str, Shape]) -> Program:
        """Compiles for further input shapes ahead of the first call, and loads the code if it is for this machine.

        Args:
            shapes: by input; those of fixed shape may be left out.

        Raises:
            InputError: the model does not take such shapes.
        """
        unknown = set(shapes) - {info.name for info in self.inputs}
        if unknown:
            raise InputError(f"no input is called '{min(unknown)}'; the inputs are {_listing(self.inputs)}")
        chosen = []
        for info in self.inputs:
            if info.name not in shapes and not info.is_static:
                raise InputError(f"input '{info.name}' has no fixed shape, so it needs one: {info}")
            chosen.append(tuple(int(dim) for dim in shapes.get(info.name, info.shape)))
        self._check(tuple(chosen))
        with self._lock:
            program = self._program(tuple(chosen))
        if not host.missing(program.target):
            self._ready(program.input_shapes)
        return program

    def save(self, path: str | os.PathLike[str], *, keep_model: bool = False) -> None:
        """Writes the code made so far as an artefact, which `stepwell.load` and `stepwell-run` take.

        Args:
            path: the file to write.
            keep_model: whether to store the model too, so that code for further input shapes can be made after loading.

        Raises:
            ArtefactError: the file cannot be written, or the model is in several files.
        """
        if keep_model and self.source is None:
            raise ArtefactError(f"{self.name}: the model is not at hand in one file, so the artefact cannot keep it")
        source = self.source if keep_model else None
        artefact.write(Path(path), artefact.Artefact(self.name, self.inputs, self.outputs, self.programs, source))

    def __repr__(self) -> str:
        takes, gives = _listing(self.inputs), _listing(self.outputs)
        return f"<Executable {self.name}: ({takes}) -> ({gives}), {len(self._programs)} programs>"

    def _in_order(self, args: tuple, kwargs: dict[str, Any]) -> tuple:
        names = [info.name for info in self.inputs]
        if not args and len(kwargs) == len(names) and all(name in kwargs for name in names):
            return tuple([kwargs[name] for name in names])
        if len(args) > len(names):
            raise InputError(
                f"{len(args)} inputs were given, but the model takes {len(names)}: {_listing(self.inputs)}"
            )
        given = dict(zip(names, args, strict=False)) | kwargs
        twice = [name for name in names[: len(args)] if name in kwargs]
        if twice:
            raise InputError(f"input '{twice[0]}' was given by position and by name")
        unknown = [name for name in kwargs if name not in names]
        if unknown:
            raise InputError(f"no input is called '{unknown[0]}'; the inputs are {_listing(self.inputs)}")
        missing = [name for name in names if name not in given]
        if missing:
            raise InputError(f"input '{missing[0]}' is missing; the inputs are {_listing(self.inputs)}")
        return tuple(given[name] for name in names)

    def _ready(self, shapes: tuple[Shape, ...]) -> LoadedProgram:
        self._check(shapes)
        with self._lock:  # another thread may have loaded the code while this one waited
            if shapes not in self._loaded:
                self._loaded[shapes] = self._load(self._program(shapes))
            return self._loaded[shapes]

    def _program(self, shapes: tuple[Shape, ...]) -> Program:
        if shapes in self._programs:
            return self._programs[shapes]
        if self._specialize is None:
            there = "; ".join(_shapes(self.inputs, known) for known in self._programs) or "none"
            asked = _shapes(self.inputs, shapes)
            raise ShapeError(f"there is no code for {asked}, and no compiler to make it; there is code for: {there}")
        return self._programs.setdefault(shapes, self._specialize(shapes))

    def _check(self, shapes: tuple[Shape, ...]) -> None:
        """Compares shapes with the declared ones; a symbol must stand for the same number wherever it occurs."""
        bound: dict[str, tuple[int, str]] = {}
        for info, shape in zip(self.inputs, shapes, strict=True):
            if len(shape) != len(info.shape):
                raise InputError(
                    f"input '{info.name}' must have {len(info.shape)} dimensions ({info}), but has shape {shape}"
                )
            for axis, (declared, dim) in enumerate(zip(info.shape, shape, strict=True)):
                expected, where = (
                    bound.setdefault(declared, (dim, info.name)) if isinstance(declared, str) else (declared, "")
                )
                if dim != expected:
                    also = f" as in input '{where}'" if where else ""
                    raise InputError(
                        f"input '{info.name}' must have {expected}{also} in dimension {axis} ({info}), "
                        f"but has shape {shape}"
                    )

    def _load(self, program: Program) -> LoadedProgram:
        lacking = host.missing(program.target)
        if lacking:
            raise ArtefactError(f"the code is for {program.target}, and this machine lacks {', '.join(lacking)}")
        arrays = [self._resident(array) for array in program.parameters.values()]
        return LoadedProgram(program, loader.load(program), arrays)

    def _resident(self, array: np.ndarray) -> np.ndarray:
        """The parameter as the native code reads it, dense and aligned; programs that share one share its memory."""
        if id(array) in self._memory:
            return self._memory[id(array)][1]
        dense = array
        if is_splat(array) or not array.flags.c_contiguous or address(array) % ALIGNMENT:
            dense = aligned_empty(array.nbytes).view(array.dtype).reshape(array.shape)
            dense[...] = array
        self._memory[id(array)] = (array, dense)  # the key stays valid for as long as the array lives
        return dense


def available_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _accept(value: Any, info: TensorInfo) -> np.ndarray:
    """The argument as an array that native code can read in place, copied only where its layout demands it."""
    array = value if type(value) is np.ndarray else _as_array(value, info)
    if array.dtype is not info.dtype and array.dtype != info.dtype:
        raise InputError(f"input '{info.name}' must be {info.dtype.name}, but is {array.dtype.name} ({info})")
    if array.flags.c_contiguous:
        return array
    return np.array(array, order="C", copy=True)


def _as_array(value: Any, info: TensorInfo) -> np.ndarray:
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError) as error:
            raise InputError(f"input '{info.name}' cannot be read through __dlpack__: {error}") from error
    raise InputError(
        f"input '{info.name}' must be a numpy array or have __dlpack__ ({info}), but is of type {type(value).__name__}"
    )


def _listing(tensors: Sequence[TensorInfo]) -> str:
    return ", ".join(map(str, tensors))


def _shapes(inputs: Sequence[TensorInfo], shapes: Iterable[Shape]) -> str:
    return ", ".join(
        f"{info.name}={'x'.join(map(str, shape)) or 'scalar'}" for info, shape in zip(inputs, shapes, strict=True)
    )
