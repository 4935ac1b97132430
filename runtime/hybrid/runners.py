"""The steps of hybrid models, ready to run: nodes on the host, control flow, and compiled subgraphs."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...sizes.ranges import Range
from ...support.short_repr import short_repr
from ..devices import registry as devices
from ..host.step import HostNode
from ..program import Program, Shape, TensorInfo
from ..specialization.adaptive import Adaptive
from ..specialization.interfaces import (
    UNKNOWN,
    ByContents,
    DeclaredRanges,
    HybridModel,
    Known,
    RangedCode,
    Specialize,
)
from ..specialization.specialization import Specializations
from . import control
from .ahead_for_ranges import AheadForRanges, Types
from .control_ahead import prepare_control
from .foresight import Ahead, ContentsAhead, Foresight
from .plan import ControlStep, ExecutionPlan, HostStep, Kinds, NativeStep, PlanStep, Variant

if TYPE_CHECKING:
    from ..execution.recorder import CallRecorder


@short_repr
@dataclass(frozen=True)
class SubgraphCode:
    """The source of a subgraph's code.

    Attributes:
        specialize: compiles it for input shapes.
        on_host: runs all of it on the host, for a given reason; None if that is not allowed.
        compile_subgraph: compiles subgraphs of it.
        foresight: knows types of its values before a run; None if unavailable.
    """

    specialize: Specialize
    on_host: Callable[[str], HybridModel] | None
    compile_subgraph: SubgraphCompiler
    foresight: Foresight | None = None


SubgraphCompiler = Callable[[NativeStep, Kinds], SubgraphCode]
"""Returns the code source of a subgraph for inputs of given element types."""


@dataclass
class HostShare:
    """The share of a plan's work that is done on the host.

    Attributes:
        host_ops: number of nodes on the host.
        ops: number of all nodes.
        host_seconds: time that runs have spent in nodes on the host.
        seconds: time that runs have spent in all steps.
    """

    host_ops: int = 0
    ops: int = 0
    host_seconds: float = 0.0
    seconds: float = 0.0


class StoredModel(HybridModel):
    """A hybrid model that can be stored, as it is a plan."""

    @property
    def share(self) -> HostShare:
        """The share of the runs so far that was done on the host."""
        raise NotImplementedError

    @property
    def uncompiled(self) -> list[str]:
        """The reasons why an artefact of the code so far could not run by itself: one for each part without code."""
        raise NotImplementedError

    def stored(self) -> ExecutionPlan:
        """Returns the plan with all code compiled so far, for an artefact."""
        raise NotImplementedError


@short_repr
@dataclass(frozen=True)
class RunnerContext:
    """Facts that the runners of a plan's steps have in common.

    Attributes:
        compile_subgraph: compiles subgraphs; None without a compiler.
        name: the model's name, for messages.
        recorder: records runs; None if nothing is recorded.
        load: loads the plan of a subgraph that runs in steps itself, with the compiler and the foresight for its parts.
    """

    compile_subgraph: SubgraphCompiler | None
    name: str
    recorder: CallRecorder | None
    load: Callable[[ExecutionPlan, SubgraphCompiler | None, Foresight | None], StoredModel]


class HostRunner:
    """A node on the host, ready to run."""

    def __init__(self, step: HostStep, context: RunnerContext) -> None:
        self.step = step
        self.nanoseconds = 0
        self._recorder = context.recorder
        self._node = HostNode(step.model, f"node '{step.fallback.node}' ({step.fallback.op_type})")

    def run(self, values: Sequence[Any], threads: int) -> Sequence[Any]:
        start = time.monotonic_ns()
        results = self._node.run(dict(zip(self.step.inputs, values, strict=True)))
        end = time.monotonic_ns()
        self.nanoseconds += end - start
        if self._recorder is not None:
            self._recorder.nodes.append((self.step.fallback, start, end))
        return results

    @property
    def can_run_ahead(self) -> bool:
        return True

    @property
    def bodies(self) -> Sequence[NativeRunner]:
        return ()

    def prepare(self, inputs: Sequence[Known], ahead: Ahead, contents: ContentsAhead) -> list[Known]:
        if ahead.foresight is None:
            return [UNKNOWN] * len(self.step.outputs)
        held = {name: contents(position) for position, name in enumerate(self.step.inputs)}
        known = {name: array for name, array in held.items() if array is not None}
        return ahead.foresight.outputs_of(self.step, dict(zip(self.step.inputs, inputs, strict=True)), known)

    def prepare_ranges(self, inputs: Types, ahead: AheadForRanges) -> Types:
        return [None] * len(self.step.outputs)

    def codes(self) -> Sequence[Specializations]:
        return ()

    def stored(self) -> HostStep:
        return self.step


class ControlRunner:
    """A control-flow node on the host, ready to run."""

    def __init__(self, step: ControlStep, context: RunnerContext) -> None:
        self.step = step
        self.nanoseconds = 0
        self._recorder = context.recorder
        self.bodies = [NativeRunner(body, context) for body in step.bodies]

    def run(self, values: Sequence[Any], threads: int) -> Sequence[Any]:
        start, before = time.monotonic_ns(), sum(body.nanoseconds for body in self.bodies)
        known = {"": None, **dict(zip(self.step.inputs, values, strict=True))}
        results = dict(zip(self.step.results, self._results(known, threads), strict=False))
        inside = sum(body.nanoseconds for body in self.bodies) - before
        end = time.monotonic_ns()
        self.nanoseconds += end - start - inside
        if self._recorder is not None:
            self._recorder.nodes.append((self.step.fallback, start, end))
        return [results[name] for name in self.step.outputs]

    def _results(self, known: dict[str, Any], threads: int) -> Sequence[Any]:
        step = self.step
        operands = [known[name] for name in step.operands]
        if step.operator == "If":
            chosen = 0 if control.single(operands[0], "the condition of an If") else 1
            return self._body(chosen, known, threads)([])
        body = self._body(0, known, threads)
        if step.operator == "Loop":
            limit, condition, *carried = [*operands, *[None] * (2 - len(operands))]
            return control.loop(limit, condition, carried, step.stacks, body)
        return control.scan(operands[: step.carried], operands[step.carried :], step.slicing, step.stacks, body)

    def _body(self, index: int, known: dict[str, Any], threads: int) -> control.ControlBody:
        """Returns a function that runs one of the graphs on the graph's own inputs."""
        runner = self.bodies[index]

        def run(values: Sequence[Any]) -> Sequence[Any]:
            around = [known[name] for name in runner.step.inputs[len(values) :]]
            return runner.run([*values, *around], threads)

        return run

    @property
    def can_run_ahead(self) -> bool:
        return False  # the number of iterations may depend on computed data

    def prepare(self, inputs: Sequence[Known], ahead: Ahead, contents: ContentsAhead) -> list[Known]:
        return prepare_control(self.step, self.bodies, inputs, ahead, contents)

    def prepare_ranges(self, inputs: Types, ahead: AheadForRanges) -> Types:
        return [None] * len(self.step.outputs)

    def codes(self) -> Sequence[Specializations]:
        return [code for body in self.bodies for code in body.codes()]

    def stored(self) -> ControlStep:
        return replace(self.step, bodies=tuple(body.stored() for body in self.bodies))


def runner_of(step: PlanStep, context: RunnerContext) -> HostRunner | ControlRunner | NativeRunner:
    """Makes a step ready to run."""
    if isinstance(step, HostStep):
        return HostRunner(step, context)
    if isinstance(step, ControlStep):
        return ControlRunner(step, context)
    return NativeRunner(step, context)


_Signature = tuple[Kinds, tuple[int, ...]]
"""The types of a subgraph's inputs, and their numbers of dimensions."""


class NativeRunner:
    """A compiled subgraph, ready to run: code for each combination of element types and ranks that occurs."""

    def __init__(self, step: NativeStep, context: RunnerContext) -> None:
        self.step = step
        self.nanoseconds, self.runs = 0, 0
        self._context = context
        self._codes: dict[_Signature, Specializations] = {}
        for variant in step.variants:
            shapes = variant.shapes or variant.programs[0].input_shapes
            self._codes[_signature(variant.kinds, shapes)] = self._new_code(variant.kinds, shapes, variant)

    def run(self, values: Sequence[Any], threads: int) -> Sequence[Any]:
        kinds = tuple([_name(value.dtype) if isinstance(value, np.ndarray) else "" for value in values])
        shapes = tuple([value.shape if isinstance(value, np.ndarray) else () for value in values])
        code = self._code_for(kinds, shapes)
        loaded = code.choose(shapes, values)
        start = time.perf_counter_ns()
        results = code.run(loaded, list(values), threads)
        self.nanoseconds += time.perf_counter_ns() - start
        self.runs += 1
        return results

    @property
    def can_run_ahead(self) -> bool:
        """True if all of it is code for this machine."""
        programs = [program for code in self.codes() for program in code.own_programs]
        return all(code.steps is None for code in self.codes()) and not any(map(_is_unsupported, programs))

    def prepare(self, inputs: Sequence[Known], ahead: Ahead, contents: ContentsAhead) -> list[Known]:
        unknown = [name for name, known in zip(self.step.inputs, inputs, strict=True) if known.info is None]
        if unknown:
            return self._skip(ahead, f"the shape of {quoted(unknown)} is known only at run time")
        infos = [known.info for known in inputs if known.info is not None]
        kinds = tuple(info.dtype.name if info.kind == "tensor" else "" for info in infos)
        shapes = tuple(tuple(int(dim) for dim in info.shape) for info in infos)
        code = self._code_for(kinds, shapes)
        held: dict[int, np.ndarray] = {}
        made = code.make(shapes, held)
        while isinstance(made, ByContents):
            for position in made.positions:
                array = contents(position)
                if array is None:
                    name = self.step.inputs[position]
                    return self._skip(
                        ahead, f"the contents of '{name}', which determine sizes, are known only at run time"
                    )
                held[position] = array
            made = code.make(shapes, held)
        if isinstance(made, Program):
            cropped = {output for count in made.counts for output, _ in count.cropped}
            return [UNKNOWN if index in cropped else Known(info) for index, info in enumerate(made.outputs)]
        return made.prepare(inputs, held)

    def prepare_ranges(self, inputs: Types, ahead: AheadForRanges) -> Types:
        unknown: Types = [None] * len(self.step.outputs)
        infos = [info for info in inputs if info is not None and info.dtype != object]
        if len(infos) < len(inputs):
            return unknown  # ranges follow from the sizes of calls
        kinds = tuple(info.dtype.name for info in infos)
        made = None if self._context.compile_subgraph is None else self._context.compile_subgraph(self.step, kinds)
        if made is None or not isinstance(made.specialize, DeclaredRanges):
            return unknown
        ranges, derived = ahead.sizes.of_inputs(infos)
        found = made.specialize.for_buckets(infos, [ranges], derived) if ranges else RangedCode()
        if found.reason:
            ahead.reasons.append(found.reason)
            return unknown
        code = self._new_code(kinds, [info.shape for info in infos], programs=found.programs, ranges=ranges)
        self._codes[_signature(kinds, [info.shape for info in infos])] = code
        if found.steps is not None:
            code.steps = found.steps
            inner = found.steps.prepare_ranges(infos, ahead.sizes)
            ahead.reasons += inner.reasons
            return inner.outputs
        program = found.programs[0] if found.programs else code.make(tuple(map(_numbers, infos)), {})
        return ahead.results_of(program, self.step.outputs) if isinstance(program, Program) else unknown

    def _skip(self, ahead: Ahead, reason: str) -> list[Known]:
        ahead.missing.append((self, reason))
        return [UNKNOWN] * len(self.step.outputs)

    def codes(self) -> Sequence[Specializations]:
        return tuple(self._codes.copy().values())

    def stored(self) -> NativeStep:
        variants = []
        for (kinds, _), code in self._codes.copy().items():
            plan = code.steps.stored() if isinstance(code.steps, StoredModel) else None
            shapes = tuple(info.shape for info in code.inputs)
            variants.append(Variant(kinds, code.own_programs, plan, shapes))
        return replace(self.step, variants=tuple(variants))

    def _code_for(self, kinds: Kinds, shapes: Sequence[Shape]) -> Specializations:
        key = _signature(kinds, shapes)
        return self._codes.get(key) or self._codes.setdefault(key, self._new_code(kinds, self._with_names(shapes)))

    def _with_names(self, shapes: Sequence[Shape]) -> list[tuple[int | str, ...]]:
        """Shapes of inputs of some ranks, each dimension of which may vary."""
        return [
            tuple(f"{name}.{axis}" for axis in range(len(shape)))
            for name, shape in zip(self.step.inputs, shapes, strict=True)
        ]

    def _new_code(
        self,
        kinds: Kinds,
        shapes: Sequence[tuple[int | str, ...]],
        variant: Variant | None = None,
        programs: Sequence[Program] = (),
        ranges: Mapping[str, Range] | None = None,
    ) -> Specializations:
        infos = [
            TensorInfo(name, _dtype(kind), shape)
            for name, kind, shape in zip(self.step.inputs, kinds, shapes, strict=True)
        ]
        compile_subgraph, name, recorder = self._context.compile_subgraph, self._context.name, self._context.recorder
        made = None if compile_subgraph is None else compile_subgraph(self.step, kinds)
        specialize, on_host, inner = (
            (made.specialize, made.on_host, made.compile_subgraph) if made else (None, None, None)
        )
        foresight = None if made is None else made.foresight
        programs = variant.programs if variant is not None else programs
        adaptive = Adaptive.of(infos, specialize) if all(kind not in ("", "object") for kind in kinds) else None
        more = {"on_host": on_host, "recorder": recorder, "adaptive": adaptive}
        code = Specializations(infos, programs, specialize, name, ranges, **more)
        if variant is not None and variant.plan is not None:
            code.steps = self._context.load(variant.plan, inner, foresight)
        return code


def _numbers(info: TensorInfo) -> Shape:
    return tuple(map(int, info.shape))


def _signature(kinds: Kinds, shapes: Sequence[Sequence[int | str]]) -> _Signature:
    return kinds, tuple(map(len, shapes))


def _is_unsupported(program: Program) -> bool:
    """Returns whether this machine cannot run a program."""
    return bool(devices.missing(program.target))


def quoted(names: Sequence[str]) -> str:
    """Returns names for a message: "'a' and 'b'"."""
    return " and ".join(f"'{name}'" for name in names)


@functools.cache
def _name(dtype: np.dtype) -> str:
    """Returns the name of an element type; numpy takes microseconds to make it."""
    return dtype.name


def _dtype(kind: str) -> np.dtype:
    if kind in ("", "object"):
        return np.dtype(object)
    try:
        return np.dtype(kind)
    except TypeError:
        import ml_dtypes  # needed only by models with such elements

        return np.dtype(getattr(ml_dtypes, kind))
