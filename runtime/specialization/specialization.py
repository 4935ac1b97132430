"""Native code of one model or subgraph for any input shapes: compiled, looked up and loaded as calls need it."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...sizes.bounds import check_derived, union
from ...sizes.ranges import Range, check_ranges, sizes_of
from ...support.errors import ArtefactError, ShapeError, SlowWarning
from ...support.short_repr import short_repr
from ..devices import registry as devices
from ..execution.bounded import BoundedCall, covering
from ..execution.workspace import LoadedProgram, Workspace
from ..memory import aligned, aligned_empty, is_splat
from ..program import Program, Shape, TensorInfo
from .interfaces import ByContents, Contents, HybridModel, Known, Specialize
from .size_advice import SizeWatch

if TYPE_CHECKING:
    from ..execution.recorder import CallRecorder

_PART_BYTES = 8 << 20
MANY_CONTENTS = 16
"""Number of programs that differ by the contents of an input at which a warning is issued."""

MANY_SHAPES = 16
"""Maximum number of sizes for which a light subgraph of a model that runs in steps is compiled."""

LIGHT_FLOPS = 10_000_000
"""Maximum number of operations of a light subgraph: numpy does as many in the time of a compile."""


@short_repr
@dataclass
class Choice:
    """The programs for one set of shapes that differ by the contents of some inputs.

    Attributes:
        by: the inputs, and the reason.
        entries: by the bytes of these inputs, the program or the next choice.
    """

    by: ByContents
    entries: dict[tuple[bytes, ...], LoadedProgram | Choice] = field(default_factory=dict)

    def key(self, arrays: Sequence[np.ndarray]) -> tuple[bytes, ...]:
        """Returns the contents of the inputs that select the entry."""
        return tuple([arrays[position].tobytes() for position in self.by.positions])


class Specializations:
    """All native code of one model, for the shapes (and contents) encountered so far.

    Attributes:
        inputs: the model's inputs.
        loaded: loaded code by input shapes; callers look here first.
        ranges: the sizes that calls may have; empty if any are allowed.
        steps: the steps that run for all shapes if part of the model cannot be compiled; else None.
        specialize: compiles for further shapes; None without a compiler.
        watch: records the shapes that calls compile for; None for subgraphs.
    """

    def __init__(
        self,
        inputs: Sequence[TensorInfo],
        programs: Iterable[Program] = (),
        specialize: Specialize | None = None,
        name: str = "model",
        ranges: Mapping[str, Range] | None = None,
        on_host: Callable[[str], HybridModel] | None = None,
        recorder: CallRecorder | None = None,
    ) -> None:
        """Starts with some programs.

        Args:
            inputs: the model's inputs, in order.
            programs: the code compiled so far.
            specialize: compiles more; None without a compiler.
            name: the model's name, for messages.
            ranges: the sizes that calls may have; by default those that the programs for ranges of sizes serve.
            on_host: runs all of it on the host, for a given reason; for subgraphs whose shapes depend on data, which
                may be too many for compiling each to pay off.
            recorder: records calls of programs.
        """
        self.inputs = tuple(inputs)
        self.loaded: dict[tuple[Shape, ...], LoadedProgram | Choice] = {}
        self.steps: HybridModel | None = None
        self.watch: SizeWatch | None = None
        self._names = [info.name for info in inputs]
        self._name = name
        self.specialize, self._on_host, self._recorder = specialize, on_host, recorder
        self._programs = {self._key(program): program for program in programs}
        self._needed_contents: dict[tuple, ByContents] = {}
        self._lock = threading.RLock()
        self._memory: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._idle: list[Workspace] = []
        self._bounded_programs: dict[int, LoadedProgram] = {}
        self.ranges = dict(ranges or {}) or union(
            program.bounds for program in self.programs if program.bounds is not None
        )

    @property
    def programs(self) -> tuple[Program, ...]:
        """The code compiled so far."""
        inner = () if self.steps is None else self.steps.programs
        return (*self.own_programs, *inner)

    @property
    def own_programs(self) -> tuple[Program, ...]:
        """The code that computes all of the model at once."""
        return tuple(self._programs.copy().values())

    @property
    def by_contents(self) -> dict[str, str]:
        """The inputs whose contents the programs depend on, with the reason, as far as known."""
        found: dict[str, str] = {}
        for needed in self._needed_contents.copy().values():
            found.update({self._names[position]: needed.reason for position in needed.positions})
        for program in self.own_programs:
            found.update({name: "" for name in program.contents if name not in found})
        return found

    def choose(self, shapes: tuple[Shape, ...], arrays: Sequence[Any]) -> LoadedProgram | HybridModel:
        """Returns the code for these inputs, compiled or loaded if necessary. All choices of code are made here."""
        entry = self.loaded.get(shapes)
        while isinstance(entry, Choice):
            entry = entry.entries.get(entry.key(arrays))
        if entry is not None:
            return entry
        return self.steps or self._load_for(shapes, arrays)

    def run(
        self,
        loaded: LoadedProgram | HybridModel,
        arrays: list[Any],
        threads: int,
        kept: dict[int, np.ndarray] | None = None,
    ) -> list[Any]:
        """Runs code on inputs of the shapes that it was compiled for; for `kept`, see `BoundedCall.run`.

        Raises:
            GuardError: their contents select a branch of the model that does not support these shapes.
        """
        if isinstance(loaded, HybridModel):
            return loaded.run(arrays, threads)
        try:
            workspace = self._idle.pop()
        except IndexError:
            workspace = Workspace()
        try:
            if kept is not None and isinstance(loaded, BoundedCall):
                return loaded.run(workspace, arrays, threads, kept)
            return loaded.run(workspace, arrays, threads)
        finally:
            self._idle.append(workspace)

    def prepare(self, shapes: tuple[Shape, ...], contents: Contents) -> Program | ByContents | HybridModel:
        """Compiles for shapes, and for contents if they matter; loads the code if it is for this machine.

        Returns:
            The program, or the inputs whose contents it needs, or the steps, in which everything that these shapes
            determine is compiled.
        """
        made = self.make(shapes, contents)
        if isinstance(made, HybridModel):
            infos = zip(self.inputs, shapes, strict=True)
            made.prepare([_known(info, shape) for info, shape in infos], contents)
        return made

    def make(self, shapes: tuple[Shape, ...], contents: Contents) -> Program | ByContents | HybridModel:
        """Does the same as `prepare`, but compiles nothing inside steps."""
        with self._lock:
            known: dict[int, np.ndarray] = {}
            made = self._made(shapes, known)
            while isinstance(made, ByContents):
                if not set(made.positions) <= set(contents):
                    return made
                known |= {position: contents[position] for position in made.positions}
                made = self._made(shapes, known)
            if isinstance(made, Program) and not devices.missing(made.target):
                empty = np.empty(0)
                self._load_for(shapes, [contents.get(position, empty) for position in range(len(shapes))])
        return made

    def _load_for(self, shapes: tuple[Shape, ...], arrays: Sequence[Any]) -> LoadedProgram | HybridModel:
        with self._lock:  # another thread may have loaded the code while this one waited
            entries: dict[Any, LoadedProgram | Choice] = self.loaded
            key: tuple = shapes
            known: dict[int, np.ndarray] = {}
            is_new = False
            while True:
                entry = entries.get(key)
                if entry is None:
                    entry = self._bounded(shapes)
                if entry is None:
                    count = len(self._programs)
                    made = self._made(shapes, known)
                    if isinstance(made, HybridModel):
                        return made
                    is_new |= len(self._programs) > count
                    entry = Choice(made) if isinstance(made, ByContents) else self._load(made)
                entries[key] = entry
                if isinstance(entry, LoadedProgram):
                    if is_new and self.watch is not None:
                        self.watch.met(shapes)
                    return entry
                known |= {position: arrays[position] for position in entry.by.positions}
                entries, key = entry.entries, entry.key(arrays)

    def _bounded(self, shapes: tuple[Shape, ...]) -> LoadedProgram | None:
        """Returns the call of a program for a range of sizes that contains these; None if there is none.

        Raises:
            InputError: a size is out of the range that the model was compiled for.
        """
        program = self._covering(shapes)
        if program is None:
            return None
        sizes = sizes_of(self.inputs, shapes)
        if id(program) not in self._bounded_programs:
            self._bounded_programs[id(program)] = self._load(program)
        return devices.loader_of(program.target).bind(self._bounded_programs[id(program)], sizes)

    def _covering(self, shapes: tuple[Shape, ...]) -> Program | None:
        """Returns the program for a range of sizes that contains these; None if there is none.

        Raises:
            InputError: a size is out of the range that the model was compiled for.
        """
        if not self.ranges:
            return None
        sizes = sizes_of(self.inputs, shapes)
        check_ranges(self.ranges, sizes)
        program = covering(self.programs, sizes)
        if program is not None and program.bounds is not None:
            check_derived(program.bounds.derived, sizes)
        return program

    def _made(self, shapes: tuple[Shape, ...], contents: Contents) -> Program | ByContents | HybridModel:
        wide = self._covering(shapes)
        if wide is not None:
            return wide
        key = shapes, _key_of(contents)
        if key in self._programs:
            return self._programs[key]
        if key in self._needed_contents:
            return self._needed_contents[key]
        if self.steps is not None:
            return self.steps
        if self.specialize is None:
            return self._distinguishing_contents(shapes, contents)
        if self._on_host is not None and len(self._programs) >= MANY_SHAPES and self._is_light():
            self.steps = self._on_host(f"it was compiled for {MANY_SHAPES} sizes, and further sizes still occur")
            return self.steps
        made = self.specialize(shapes, {position: array.copy() for position, array in contents.items()})
        if isinstance(made, ByContents):
            self._needed_contents[key] = made
            return made
        if isinstance(made, HybridModel):
            self.steps = made
            return made
        self._programs[key] = made
        self._warn_of_many(contents)
        return made

    def _is_light(self) -> bool:
        """Returns whether running the work takes any machine less time than compiling it."""
        flops = (sum(kernel.flops * kernel.calls for kernel in program.kernels) for program in self.own_programs)
        return max(flops, default=0) <= LIGHT_FLOPS

    def _distinguishing_contents(self, shapes: tuple[Shape, ...], contents: Contents) -> ByContents:
        """Returns the next input by whose contents the existing programs for some shapes differ.

        Raises:
            ShapeError: there are none for these shapes, or none for such contents.
        """
        given = set(_key_of(contents))
        for program_shapes, key in self._programs:
            if program_shapes == shapes and given < set(key):
                return ByContents((next(place for place, _ in key if place not in contents),), "")
        there = "; ".join(self._described(*key) for key in self._programs) or "none"
        requested = self._described(shapes, _key_of(contents))
        raise ShapeError(f"there is no code for {requested}, and no compiler is available; there is code for: {there}")

    def _described(self, shapes: tuple[Shape, ...], contents: tuple[tuple[int, bytes], ...]) -> str:
        text = ", ".join(
            f"{name}={'x'.join(map(str, shape)) or 'scalar'}" for name, shape in zip(self._names, shapes, strict=True)
        )
        held = {place: np.frombuffer(data, self.inputs[place].dtype).tolist() for place, data in contents}
        return text + "".join(f" with {self._names[place]} = {values}" for place, values in held.items())

    def _warn_of_many(self, contents: Contents) -> None:
        if sum(bool(key) for _, key in self._programs) != MANY_CONTENTS or not contents:
            return
        names = " and ".join(f"'{name}'" for name in self.by_contents)
        warnings.warn(
            f"{self._name}: compiled {MANY_CONTENTS} times for different contents of {names}, which determine sizes in "
            "the model; every new content is compiled for again",
            SlowWarning,
            stacklevel=2,
        )

    def _key(self, program: Program) -> tuple[tuple[Shape, ...], tuple[tuple[int, bytes], ...]]:
        return program.input_shapes, _key_of(
            {self._names.index(name): array for name, array in program.contents.items()}
        )

    def _load(self, program: Program) -> LoadedProgram:
        lacking = devices.missing(program.target)
        if lacking:
            raise ArtefactError(f"the code is for {program.target}, and this machine lacks {', '.join(lacking)}")
        return devices.loader_of(program.target).load(program, self._resident, self._recorder)

    def _resident(self, array: np.ndarray) -> np.ndarray:
        """Returns the parameter as native code reads it, dense and aligned; programs that share it share its memory."""
        if id(array) in self._memory:
            return self._memory[id(array)][1]
        dense = aligned(array)
        if is_splat(array):
            dense = aligned_empty(array.nbytes).view(array.dtype).reshape(array.shape)
            _fill(dense, array)
        self._memory[id(array)] = (array, dense)  # keeps the array alive, and so its id unique
        return dense


def _fill(dense: np.ndarray, array: np.ndarray) -> None:
    """Fills an array with the one element of another; uses two threads for large ones, as page faults dominate."""
    if array.nbytes < 2 * _PART_BYTES:
        dense[...] = array
        return
    from concurrent.futures import ThreadPoolExecutor  # most starts do not need it

    flat, step = dense.reshape(-1), _PART_BYTES // array.itemsize
    parts = [flat[start : start + step] for start in range(0, flat.size, step)]
    with ThreadPoolExecutor(2) as pool:  # filling releases Python's lock
        list(pool.map(lambda part: part.fill(array.flat[0]), parts))


def _key_of(contents: Contents) -> tuple[tuple[int, bytes], ...]:
    return tuple((position, array.tobytes()) for position, array in contents.items())


def _known(info: TensorInfo, shape: Shape) -> Known:
    """Returns the type of a model's input; unknown before a run if it is not a tensor."""
    return Known(TensorInfo(info.name, info.dtype, shape, info.kind) if info.kind == "tensor" else None)
