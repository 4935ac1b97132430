"""Native code of one model or subgraph for any input shapes: compiled, looked up and loaded as calls need it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...sizes.bounds import check_derived, union
from ...sizes.ranges import Range, check_ranges, sizes_of
from ...support.errors import ArtefactError, SlowWarning
from ...support.warning import warn
from ..devices import registry as devices
from ..execution.ranged_call import RangedCall
from ..execution.workspace import LoadedProgram, Workspace
from ..program import Program, Shape, TensorInfo
from .adaptive import HOT_CALLS, Adaptive
from .interfaces import AHEAD, CALL, ByContents, Contents, HybridModel, Known, Specialize
from .parameters import ResidentParameters
from .program_table import Choice, ProgramTable, key_of
from .records import ProgramRecord
from .size_advice import SizeWatch

if TYPE_CHECKING:
    from ..execution.recorder import CallRecorder

MANY_CONTENTS = 16
"""Number of programs that differ by the contents of an input at which a warning is issued."""

MANY_SHAPES = 16
"""Maximum number of sizes for which a light subgraph of a model that runs in steps is compiled."""

MOST_BOUND = 1024
"""Maximum number of sizes for which prepared calls of programs for ranges are kept; preparing one takes a millisecond.
"""

_now = time.perf_counter


class Specializations:
    """All native code of one model, for the shapes (and contents) encountered so far.

    Attributes:
        inputs: the model's inputs.
        loaded: loaded code by input shapes; callers look here first.
        ranges: the sizes that calls may have; empty if any are allowed.
        steps: the steps that run for all shapes if part of the model cannot be compiled; else None.
        specialize: compiles for further shapes; None without a compiler.
        watch: records the shapes that calls compile for; None for subgraphs.
        adaptive: requests programs for ranges that follow from the sizes of calls; None if there are to be none.
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
        adaptive: Adaptive | None = None,
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
            adaptive: requests programs for ranges that follow from the sizes of calls; ignored if there are `ranges`.
        """
        self.inputs = tuple(inputs)
        self.loaded: dict[tuple[Shape, ...], LoadedProgram | Choice] = {}
        self.steps: HybridModel | None = None
        self.watch: SizeWatch | None = None
        self._names = [info.name for info in inputs]
        self._name = name
        self.specialize, self._on_host, self._recorder = specialize, on_host, recorder
        self._programs = ProgramTable(inputs, programs)
        self._needed_contents: dict[tuple, ByContents] = {}
        self._lock = threading.RLock()  # held during a compile
        self._loading = threading.RLock()  # held for milliseconds, also while another thread compiles
        self._parameters = ResidentParameters()
        self._idle: list[Workspace] = []
        self._bounded_programs: dict[int, LoadedProgram] = {}
        self.ranges = dict(ranges or {}) or union(
            program.bounds for program in self.programs if program.bounds is not None
        )
        self.adaptive = None if self.ranges else adaptive
        if self.adaptive is not None:
            self.adaptive.start_with(self.own_programs)

    @property
    def programs(self) -> tuple[Program, ...]:
        """The code compiled so far."""
        inner = () if self.steps is None else self.steps.programs
        return (*self.own_programs, *inner)

    @property
    def own_programs(self) -> tuple[Program, ...]:
        """The code that computes all of the model at once."""
        return self._programs.all

    @property
    def records(self) -> tuple[ProgramRecord, ...]:
        """The table of programs."""
        return self._programs.records(() if self.steps is None else self.steps.programs)

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
        """Runs code on inputs of the shapes that it was compiled for; for `kept`, see `RangedCall.run`.

        Raises:
            GuardError: their contents select a branch of the model that does not support these shapes.
        """
        if isinstance(loaded, HybridModel):
            return loaded.run(arrays, threads)
        idle = self._idle
        workspace = _begun(loaded, idle)
        try:
            if kept is not None and isinstance(loaded, RangedCall):
                return loaded.run(workspace, arrays, threads, kept)
            return loaded.run(workspace, arrays, threads)
        finally:
            idle.append(workspace)  # of a list that is gone if programs were dropped, whose tables it may hold

    def run_at(self, loaded: LoadedProgram, addresses: Sequence[int], threads: int) -> None:
        """Runs code on contiguous inputs at some addresses, and writes the outputs to those that follow.

        Raises:
            GuardError: their contents select a branch of the model that does not support these shapes.
        """
        idle = self._idle
        workspace = _begun(loaded, idle)
        try:
            status = workspace.run_at(loaded, addresses, threads)
            if status:
                loaded.checked([], status)
        finally:
            idle.append(workspace)

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
            made = self._made(shapes, known, ahead=True)
            while isinstance(made, ByContents):
                if not set(made.positions) <= set(contents):
                    return made
                known |= {position: contents[position] for position in made.positions}
                made = self._made(shapes, known, ahead=True)
            if isinstance(made, Program) and not devices.missing(made.target):
                empty = np.empty(0)
                self._load_for(shapes, [contents.get(position, empty) for position in range(len(shapes))])
        return made

    def _load_for(self, shapes: tuple[Shape, ...], arrays: Sequence[Any]) -> LoadedProgram | HybridModel:
        bound = self._ranged(shapes)  # without a compile, so while another thread compiles
        if bound is not None:
            return bound
        with self._lock:  # another thread may have loaded the code while this one waited
            entries: dict[Any, LoadedProgram | Choice] = self.loaded
            key: tuple = shapes
            known: dict[int, np.ndarray] = {}
            is_new = False
            while True:
                entry = entries.get(key)
                if entry is None:
                    entry = self._ranged(shapes)
                if entry is None:
                    count = len(self._programs)
                    made = self._made(shapes, known)
                    if isinstance(made, HybridModel):
                        return made
                    if isinstance(made, Program) and made.bounds is not None:
                        continue  # bound to the shapes above
                    is_new |= len(self._programs) > count
                    entry = Choice(made) if isinstance(made, ByContents) else self._load(made)
                    self._drop_unused(entry)
                entries[key] = entry
                if isinstance(entry, LoadedProgram):
                    if is_new and self.watch is not None:
                        self.watch.met(shapes)
                    return entry
                known |= {position: arrays[position] for position in entry.by.positions}
                entries, key = entry.entries, entry.key(arrays)

    def _ranged(self, shapes: tuple[Shape, ...]) -> LoadedProgram | None:
        """Returns the call of a program for a range of sizes that contains these; None if there is none.

        Raises:
            InputError: a size is out of the range that the model was compiled for.
        """
        with self._loading:
            program = None if self._programs.has_shapes(shapes) else self._covering(shapes)
            if program is None:
                return None
            sizes = sizes_of(self.inputs, shapes)
            if id(program) not in self._bounded_programs:
                self._bounded_programs[id(program)] = self._load(program)
            loaded = self._bounded_programs[id(program)]
            call = devices.loader_of(program.target).bind(loaded, sizes)
            call.usage = loaded.usage
            if self.adaptive is not None and self.adaptive.policy.adapts and isinstance(call, RangedCall):
                adaptive = self.adaptive
                call.watch(HOT_CALLS, lambda: adaptive.hot(shapes, lambda made: self._add_hot(shapes, made)))
            if len(self.loaded) >= MOST_BOUND:
                self._forget(lambda entry: entry.program.bounds is not None)
            self.loaded[shapes] = call
            return call

    def _covering(self, shapes: tuple[Shape, ...]) -> Program | None:
        """Returns the program for a range of sizes that contains these; None if there is none.

        Raises:
            InputError: a size is out of the range that the model was compiled for.
        """
        if not self.ranges and not self._programs.has_ranges:
            return None
        sizes = sizes_of(self.inputs, shapes)
        check_ranges(self.ranges, sizes)
        program = self._programs.covering(sizes)
        if program is not None and program.bounds is not None:
            check_derived(program.bounds.derived, sizes)
        return program

    def _made(
        self, shapes: tuple[Shape, ...], contents: Contents, ahead: bool = False
    ) -> Program | ByContents | HybridModel:
        """Returns the code for shapes (and contents): known, or compiled now.

        Args:
            shapes: the shapes of the inputs.
            contents: the contents of some inputs.
            ahead: whether exactly these shapes were requested, and not a call; their code is kept.
        """
        key = key_of(shapes, contents)
        if ahead:
            self._programs.pin(key)
        own = self._programs.get(key)
        if own is not None:
            return own
        wide = self._covering(shapes)
        if wide is not None and wide.bounds is not None and not (ahead and wide.bounds.is_inferred):
            return wide
        if key in self._needed_contents:
            return self._needed_contents[key]
        if self.steps is not None:
            return self.steps
        if self.specialize is None:
            return self._programs.distinguishing(shapes, contents)
        if self._on_host is not None and len(self._programs) >= MANY_SHAPES and self._programs.is_light:
            self.steps = self._on_host(f"it was compiled for {MANY_SHAPES} sizes, and further sizes still occur")
            return self.steps
        if self.adaptive is not None and not ahead and not self._needed_contents:
            ranged = self.adaptive.range_for(shapes, self._add_range)
            if ranged is not None:
                self._add_range(ranged)
                return ranged
        held = {position: array.copy() for position, array in contents.items()}
        made = self.specialize(shapes, held, AHEAD if ahead else CALL)
        if isinstance(made, ByContents):
            self._needed_contents[key] = made
            return made
        if isinstance(made, HybridModel):
            self.steps = made
            return made
        self._programs.add(key, made)
        self._warn_of_many(contents)
        if self.adaptive is not None and not contents:
            self.adaptive.met(shapes)
            if self.adaptive.reason and self.watch is not None:
                self.watch.explain(self.adaptive.reason)
        return made

    def _add_range(self, program: Program) -> None:
        """Adds a program for a range; it serves the sizes of calls from now on that have no code of their own."""
        with self._loading:
            self._programs.add(key_of(program.input_shapes, {}), program)
            self._forget(lambda entry: entry.program.bounds is not None)
        self._drop_unused()

    def _add_hot(self, shapes: tuple[Shape, ...], made: Program) -> None:
        """Adds the program for shapes of many calls, which was compiled in the background."""
        loaded = self._load(made)
        with self._loading:
            self._programs.add((shapes, ()), made)
            self.loaded[shapes] = loaded
        self._drop_unused(loaded)

    def _drop_unused(self, new: LoadedProgram | Choice | None = None) -> None:
        """Drops the programs that were not called for longest, and their memory, beyond the maximum number.

        Programs for shapes that were requested ahead of calls are kept, and so are the one for the widest range and
        `new`.
        """
        adaptive = self.adaptive
        most = None if adaptive is None else adaptive.policy.max_programs
        if adaptive is None or most is None:
            return
        with self._loading:
            kept = new.program if isinstance(new, LoadedProgram) else None
            most -= kept is not None
            dropped = self._programs.drop_unused(
                max(most, 0), lambda program: program is kept or adaptive.is_widest(program)
            )
            for (shapes, _), program in dropped:
                self._bounded_programs.pop(id(program), None)
                self._forget(lambda entry, program=program: entry.program is program)
                self.loaded.pop(shapes, None)  # a choice by contents is looked up again
            if dropped:
                self._parameters.keep(self._programs.all)
                self._idle = []

    def _forget(self, is_gone: Callable[[LoadedProgram], bool]) -> None:
        """Makes calls look up code again."""
        for shapes, entry in self.loaded.copy().items():
            if isinstance(entry, LoadedProgram) and is_gone(entry):
                self.loaded.pop(shapes, None)

    def _warn_of_many(self, contents: Contents) -> None:
        if sum(bool(key) for _, key in self._programs.keys) != MANY_CONTENTS or not contents:
            return
        names = " and ".join(f"'{name}'" for name in self.by_contents)
        warn(
            f"{self._name}: compiled {MANY_CONTENTS} times for different contents of {names}, which determine sizes in "
            "the model; every new content is compiled for again",
            SlowWarning,
        )

    def _load(self, program: Program) -> LoadedProgram:
        lacking = devices.missing(program.target)
        if lacking:
            raise ArtefactError(f"the code is for {program.target}, and this machine lacks {', '.join(lacking)}")
        with self._loading:
            loaded = devices.loader_of(program.target).load(program, self._parameters.resident, self._recorder)
            loaded.usage = self._programs.usage_of(program)
            return loaded


def _known(info: TensorInfo, shape: Shape) -> Known:
    """Returns the type of a model's input; unknown before a run if it is not a tensor."""
    return Known(TensorInfo(info.name, info.dtype, shape, info.kind) if info.kind == "tensor" else None)


def _begun(loaded: LoadedProgram, idle: list[Workspace]) -> Workspace:
    """Counts a call of a program, and returns an idle workspace, or a new one."""
    usage = loaded.usage
    usage.calls += 1
    usage.last = _now()
    try:
        return idle.pop()
    except IndexError:
        return Workspace()
