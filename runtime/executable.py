"""`Executable`: a compiled model as a callable on numpy arrays."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..sizes.ranges import Range
from ..support.cores import available_cores
from ..support.errors import ArtefactError, InputError
from ..support.short_repr import cut
from ..support.warning import warn
from ..support.wording import quantity
from .arguments import (
    CallArguments,
    accept,
    accept_any,
    accept_layout,
    is_tensor,
    listing,
    numbers,
    thread_count,
)
from .artefact import reader
from .compiled_model import CompiledModel
from .execution.input_shapes import check_shapes
from .execution.workspace import LoadedProgram
from .host.fallback import Fallback
from .hybrid.loaded_plan import LoadedPlan
from .hybrid.runners import HostShare
from .memory import contiguous
from .pools import PooledModel, Pools
from .program import MAX_LISTING_LENGTH, Program, Shape
from .report import html
from .report.report import PerformanceReport
from .specialization.adaptive import Adaptive
from .specialization.interfaces import ByContents, HybridModel, Specialize
from .specialization.records import ProgramRecord
from .specialization.size_advice import SizeWatch
from .specialization.specialization import Specializations
from .state import State

if TYPE_CHECKING:
    from .execution.recorder import CallRecorder
    from .profile.profile import Profile


CallOutputs = np.ndarray | tuple[np.ndarray, ...]


class Executable:
    """A compiled model. Calls may come from any number of threads at once.

    Attributes:
        inputs: inputs of a call; dynamic dimensions are symbols.
        outputs: outputs of a call.
        threads: number of threads of a call.
        source: the model itself; None if it is not available in one file.
        unranged: why no program serves the requested ranges of sizes; empty if one does, or none were requested.
        watch: warns if calls compile for one size after another.
    """

    def __init__(self, model: CompiledModel, threads: int | None = None, recorder: CallRecorder | None = None) -> None:
        """Makes native code callable.

        Args:
            model: the model and its code.
            threads: number of threads of a call; by default the number of cores available to this process.
            recorder: records calls of programs.

        Raises:
            InputError: `threads` is not a valid number of threads.
        """
        self.name = model.name
        self.inputs = tuple(model.inputs)
        self.outputs = tuple(model.outputs)
        self.threads = available_cores() if threads is None else thread_count(threads)
        self._default_threads = self.threads if threads is None else None
        self.source = model.source
        self.unranged = model.unranged
        adaptive = Adaptive.of(self.inputs, model.specialize)
        known = (self.inputs, model.programs, model.specialize, model.name, model.ranges)
        self._code = Specializations(*known, recorder=recorder, adaptive=adaptive)
        self._code.steps = model.steps
        self.watch = self._code.watch = SizeWatch(model.name, self.inputs)
        self._loaded = self._code.loaded
        self._arguments = CallArguments(self.inputs)
        self._dtypes = [info.dtype for info in self.inputs]
        self._checked: tuple[Shape, ...] | None = None  # those of the last call of a model that runs in steps
        self._takes_arrays = all(is_tensor(info) and info.dtype != object for info in self.inputs)

    @property
    def programs(self) -> tuple[Program, ...]:
        """The compiled programs: for ranges of sizes, for sets of input shapes, for contents of inputs (`by_contents`).

        Their attributes `serves`, `why`, `compile_seconds` and `nbytes` are printed by `explain`, with their calls.
        """
        return self._code.programs

    @property
    def code(self) -> Specializations:
        """The native code by input shapes, for callers that bring their own memory."""
        return self._code

    @property
    def program_records(self) -> tuple[ProgramRecord, ...]:
        """The table of `programs`: the sizes that each serves, why it was compiled, its calls, and its memory."""
        return self._code.records

    @property
    def ranges(self) -> dict[str, Range]:
        """The sizes that calls may have, by the names of dimensions; empty if none were declared."""
        return dict(self._code.ranges)

    def explain(self) -> str:
        """Describes the sizes that each program serves, its kernels, its calls, and why it was compiled.

        If no program could serve ranges of sizes, the first line says why.
        """
        adaptive = self._code.adaptive
        reason = self.unranged or (adaptive.reason if adaptive is not None else "")
        why = [f"each size is compiled separately, at its first call: {reason}"] if reason else []
        return "\n".join([*why, *map(str, self.program_records)])

    def report(self) -> PerformanceReport:
        """Returns a report on every node of the model and the bound of each kernel's time (docs/report.md)."""
        return PerformanceReport.of(self.name, self.programs, self.fallbacks, self.threads)

    @property
    def by_contents(self) -> dict[str, str]:
        """Small inputs whose contents, like shapes, the code is specialised for: by name, with the reason.

        They are found during compilation: if shapes vary, in the first call.
        """
        return self._code.by_contents

    @property
    def peak_bytes(self) -> int:
        """Maximum scratch memory of a call in bytes, beside its inputs, outputs and parameters."""
        return max((program.arena_bytes for program in self.programs), default=0)

    # Any, since the model decides whether the result is one array or a tuple; a union would burden every caller.
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the model on numpy arrays, or any objects with `__dlpack__`, by position or by name.

        Returns:
            One output as a `numpy.ndarray`; several as a tuple of them, in the model's order. They are new arrays.

        Raises:
            InputError: the inputs do not match the model's inputs.
            GuardError: their contents select a branch of the model that does not support these shapes.
        """
        inputs = self.inputs
        if kwargs or len(args) != len(inputs):
            args = self._arguments.in_order(args, kwargs)
        if not self._takes_arrays:
            return self._call_on_values(args)
        dtypes = self._dtypes
        arrays = [
            value if type(value) is np.ndarray and value.dtype is dtypes[place] else accept_layout(value, inputs[place])
            for place, value in enumerate(args)
        ]
        shapes = tuple([array.shape for array in arrays])
        loaded = self._loaded.get(shapes)
        if not isinstance(loaded, LoadedProgram):
            loaded = self._ready(shapes, arrays)
        if not loaded.reads_layouts:
            arrays = [array if array.flags.c_contiguous else contiguous(array) for array in arrays]
        outputs = self._code.run(loaded, arrays, self.threads)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def outputs_for(self, inputs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Runs the model on inputs by name, and returns its outputs as a tuple, also if there is only one.

        Raises:
            InputError: the inputs do not match the model's inputs.
            GuardError: their contents select a branch of the model that does not support these shapes.
        """
        found = self(**inputs)
        return found if isinstance(found, tuple) else (found,)

    def state(self, sizes: Mapping[str, int] | None = None) -> State:
        """Returns a new state: inputs that the model returns with data appended, updated in place by calls of it.

        Args:
            sizes: sizes of the other symbolic dimensions of these inputs, such as the batch, by name.

        Raises:
            InputError: no program for ranges of sizes has such inputs, or a size is missing.
        """
        return State(self._code, self.outputs, self.threads, dict(sizes or {}))

    def pooled(self, pools: Pools | None = None) -> PooledModel:
        """Returns the model as a callable on its inputs other than pools of rows, which calls change in place.

        Args:
            pools: those that another executable uses; by default new ones.

        Raises:
            InputError: the model has no pools, or ones of other sizes.
        """
        return PooledModel(self._code, self.threads, pools)

    @property
    def fallbacks(self) -> tuple[Fallback, ...]:
        """The nodes that run on the host, each with the reason; if shapes vary, those found so far."""
        return () if self._code.steps is None else self._code.steps.fallbacks

    @property
    def share_on_host(self) -> HostShare:
        """The share of the model's nodes, and of the time of its runs so far, that is on the host."""
        return self._code.steps.share if isinstance(self._code.steps, LoadedPlan) else HostShare()

    def prepare(self, shapes: Mapping[str, Shape], contents: Mapping[str, np.ndarray] | None = None) -> Program | None:
        """Compiles for further input shapes before the first call, and loads the code if it is for this machine.

        Args:
            shapes: by input name; inputs with fixed shapes, and those in `contents`, may be omitted.
            contents: contents of inputs, for those in `by_contents`.

        Returns:
            The program; None for a model that runs in steps, for which everything determined by shapes is compiled.

        Raises:
            InputError: the model does not take such shapes, or the contents of an input are needed too.
        """
        made = self.try_prepare(shapes, contents)
        if isinstance(made, ByContents):
            names = [self.inputs[place].name for place in made.positions]
            missing = next(name for name in names if name not in (contents or {}))
            raise InputError(f"input '{missing}' must be given with its contents, which determine sizes: {made.reason}")
        return made if isinstance(made, Program) else None

    def try_prepare(
        self, shapes: Mapping[str, Shape], contents: Mapping[str, np.ndarray] | None = None
    ) -> Program | ByContents | HybridModel:
        """Does the same as `prepare`, but reports missing contents as a result, not as an error.

        Raises:
            InputError: the model does not take such shapes.
        """
        known = dict(contents or {})
        unknown = (set(shapes) | set(known)) - {info.name for info in self.inputs}
        if unknown:
            raise InputError(f"no input is called '{min(unknown)}'; the inputs are {listing(self.inputs)}")
        held = {place: accept(known[info.name], info) for place, info in enumerate(self.inputs) if info.name in known}
        chosen = []
        for place, info in enumerate(self.inputs):
            if info.name not in shapes and place not in held and not info.is_static and is_tensor(info):
                raise InputError(f"input '{info.name}' has no fixed shape, so it needs one: {info}")
            shape = held[place].shape if place in held else shapes.get(info.name, info.shape)
            chosen.append(numbers(shape, info))
        tensors = [(info, shape) for info, shape in zip(self.inputs, chosen, strict=True) if is_tensor(info)]
        check_shapes([info for info, _ in tensors], tuple(shape for _, shape in tensors))
        return self._code.prepare(tuple(chosen), held)

    def profile(self, inputs: Mapping[str, Any], calls: int = 20, warmup: int = 3) -> Profile:
        """Calls the model repeatedly on the same inputs and measures where the time goes.

        It links instrumented code from the same kernels; other calls are not affected.

        Args:
            inputs: by name, as a call takes them.
            calls: number of calls to record.
            warmup: number of calls before those.

        Raises:
            InputError: the inputs do not match the model's inputs.
            ArtefactError: an older version compiled the code and did not record how its kernels are called.
        """
        from .profile.profiler import profile  # not needed by calls

        return profile(self, inputs, calls, warmup)

    def save(self, path: str | os.PathLike[str], *, keep_model: bool = False, cubins: bool = False) -> None:
        """Writes the code compiled so far as an artefact, which `stepwell.load` and `stepwell-run` read.

        Args:
            path: the file to write.
            keep_model: whether to store the model too, so that further input shapes can be compiled after loading.
                It is always stored if `uncompiled` is not empty.
            cubins: whether to store GPU machine code beside the PTX, so that the driver need not compile it.

        Raises:
            ArtefactError: the file cannot be written, the model would have to be stored but consists of several files,
                or ptxas is missing for cubins.

        Warns:
            UserWarning: the model is stored too, because there is no code for parts of it.
        """
        if not keep_model and (reasons := self.uncompiled):
            keep_model = True
            text = "; ".join(reasons)
            if self.source is None:
                raise ArtefactError(f"{self.name}: the artefact could not run: {text}. Call the model before saving it")
            warn(f"{self.name}: the artefact includes the model, to compile when it is called: {text}")
        if keep_model and self.source is None:
            raise ArtefactError(f"{self.name}: the model does not exist as one file, so the artefact cannot include it")
        from .artefact.writer import write  # not needed by calls

        write(Path(path), self.stored(keep_model=keep_model), cubins=cubins)

    @property
    def uncompiled(self) -> list[str]:
        """The reasons why an artefact of the code so far could not run by itself: one for each part without code."""
        steps = self._code.steps
        if steps is not None:
            return steps.uncompiled
        return [] if self._code.own_programs else ["it has not been compiled for any input shapes yet"]

    def stored(self, *, keep_model: bool = False) -> reader.Artefact:
        """Returns the artefact that `save` writes."""
        source = self.source if keep_model else None
        steps = self._code.steps
        plan = steps.stored() if isinstance(steps, LoadedPlan) else None
        return reader.Artefact(self.name, self.inputs, self.outputs, self._code.own_programs, source, plan)

    def instrumented(self, recorder: CallRecorder) -> Executable:
        """Returns an executable of the code compiled so far whose calls are recorded."""
        model = replace(CompiledModel.of(self.stored(), recorder=recorder), ranges=self.ranges)
        return Executable(model, self.threads, recorder)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the code compiled so far as an artefact, with the model and its options for further compilation."""
        from .artefact.writer import encoded

        return _unpickled, (encoded(self.stored()), *self._settings())

    def __copy__(self) -> Executable:
        return _restored(self.stored(), *self._settings())

    def __deepcopy__(self, memo: dict[int, Any]) -> Executable:
        # The parts shared with the copy (code, parameters, the model) are immutable.
        return self.__copy__()

    def _settings(self) -> tuple[Any, ...]:
        """Returns the state that `stored` lacks."""
        # None stands for the default number of threads on the machine that unpickles.
        threads = None if self.threads == self._default_threads else self.threads
        return self._code.specialize, self.source, threads, self.unranged, self.ranges

    def __repr__(self) -> str:
        takes, gives = (cut(listing(items), MAX_LISTING_LENGTH) for items in (self.inputs, self.outputs))
        count = quantity(len(self.programs), "program")
        return f"<Executable {cut(self.name, 100)}: ({takes}) -> ({gives}), {count}>"

    def _repr_html_(self) -> str:
        ports = [("input", info) for info in self.inputs] + [("output", info) for info in self.outputs]
        rows = [(role, info.name, str(info).removeprefix(f"{info.name}: ")) for role, info in ports]
        code = [
            (cut(record.summary, MAX_LISTING_LENGTH), record.program.target.name) for record in self.program_records
        ]
        programs = html.heading(quantity(len(code), "program")) + html.table(("serves", "target"), code)
        title = f"{self.name}, {quantity(self.threads, 'thread')}"
        return html.heading(title) + html.table(("", "name", "type"), rows) + (programs if code else "")

    def _call_on_values(self, args: Sequence[Any]) -> CallOutputs:
        """Runs a model whose inputs include strings or other values than tensors."""
        values = [accept_any(value, info) for value, info in zip(args, self.inputs, strict=True)]
        tensors = [(info, value.shape) for info, value in zip(self.inputs, values, strict=True) if is_tensor(info)]
        check_shapes([info for info, _ in tensors], tuple(shape for _, shape in tensors))
        shapes = tuple(value.shape if isinstance(value, np.ndarray) else () for value in values)
        outputs = self._code.run(self._code.choose(shapes, values), values, self.threads)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _ready(self, shapes: tuple[Shape, ...], arrays: Sequence[np.ndarray]) -> LoadedProgram | HybridModel:
        if shapes not in self._loaded and shapes != self._checked:
            check_shapes(self.inputs, shapes)
            self._checked = shapes
        return self._code.choose(shapes, arrays)


def _unpickled(data: bytes, *settings: Any) -> Executable:
    """Restores an executable from its artefact and `Executable._settings`.

    Raises:
        ArtefactError: its code does not run on this machine.
    """
    return _restored(reader.read(data), *settings)


def _restored(
    stored: reader.Artefact,
    specialize: Specialize | None,
    source: reader.ArtefactSource | None,
    threads: int | None,
    unranged: str,
    ranges: Mapping[str, Range],
) -> Executable:
    if importlib.util.find_spec("mlir") is None:
        specialize = None
    model = CompiledModel.of(stored, specialize, source)
    return Executable(replace(model, unranged=unranged, ranges=ranges), threads)
