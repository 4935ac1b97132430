"""Models that run in steps.

Values are numpy arrays, or represent other types: lists for sequences, None for an empty optional, dicts for maps,
object arrays for strings. A subgraph is compiled for the shapes of its inputs at run time, as whole models are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...support.short_repr import short_repr
from ..devices import registry as devices
from ..host.fallback import Fallback
from ..host.step import HostNode
from ..program import Program, TensorInfo
from ..specialization.interfaces import UNKNOWN, ByContents, HybridModel, Known, Specialize
from ..specialization.specialization import Specializations
from . import control
from .control_ahead import prepare_control
from .foresight import Ahead, Contents, Foresight
from .plan import ControlStep, ExecutionPlan, HostStep, Kinds, NativeStep, Step, Variant

if TYPE_CHECKING:
    from ..execution.recorder import CallRecorder


@short_repr
@dataclass(frozen=True)
class PieceCode:
    """The source of a subgraph's code.

    Attributes:
        specialize: compiles it for input shapes.
        on_host: runs all of it on the host, for a given reason; None if that is not allowed.
        compile_piece: compiles subgraphs of it.
        foresight: knows types of its values before a run; None if unavailable.
    """

    specialize: Specialize
    on_host: Callable[[str], HybridModel] | None
    compile_piece: PieceCompiler
    foresight: Foresight | None = None


PieceCompiler = Callable[[NativeStep, Kinds], PieceCode]
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


class LoadedPlan(HybridModel):
    """A plan, ready to run. Calls may come from any number of threads at once."""

    def __init__(
        self,
        plan: ExecutionPlan,
        compile_piece: PieceCompiler | None,
        name: str = "model",
        recorder: CallRecorder | None = None,
        foresight: Foresight | None = None,
    ) -> None:
        """Loads a plan.

        Args:
            plan: the steps.
            compile_piece: compiles subgraphs; None without a compiler.
            name: the model's name, for messages.
            recorder: records runs; None if nothing is recorded.
            foresight: knows types of values before a run; None if unavailable.
        """
        self.plan = plan
        self._name, self._foresight = name, foresight
        self._missing: dict[tuple, list[tuple[_Native, str]]] = {}
        self._runners = [_runner(step, compile_piece, name, recorder) for step in plan.steps]
        self._released = _last_uses(plan)
        self._exclusive = _unshared_outputs(plan)

    def run(self, values: Sequence[Any], threads: int) -> list[Any]:
        """Runs the steps one after the other."""
        known = dict(zip(self.plan.inputs, values, strict=True))
        given = set(_identities(values))
        missing = self._missing.get(_shapes_of(values), []) if self._missing else []
        runs = [runner.runs for runner, _ in missing]
        for runner, released in zip(self._runners, self._released, strict=True):
            step = runner.step
            results = runner.run([known[name] for name in step.inputs], threads)
            known.update(zip(step.outputs, results, strict=True))
            for name in released:
                del known[name]
        outputs = []
        for name in self.plan.outputs:
            value = known[name]
            outputs.append(value if name in self._exclusive and id(value) not in given else _unshared(value, given))
            given.update(_identities(outputs[-1:]))
        if missing:  # the run has compiled the subgraphs it reached
            left = [item for item, count in zip(missing, runs, strict=True) if item[0].runs == count]
            self._missing[_shapes_of(values)] = left
        return outputs

    def prepare(self, inputs: Sequence[Known], contents: Mapping[int, np.ndarray] | None = None) -> list[Known]:
        """Compiles everything that the inputs' types and shapes determine.

        Args:
            inputs: the inputs' types.
            contents: contents of some inputs, by position.

        Returns:
            The outputs' types.
        """
        names = self.plan.inputs
        values = {names[position]: array for position, array in (contents or {}).items()}
        ahead = Ahead(self.plan, self._runners, self._foresight, dict(zip(names, inputs, strict=True)), values)
        outputs = ahead.prepare()
        key = tuple(() if known.info is None else known.info.shape for known in inputs)
        self._missing[key] = [(runner, reason) for runner, reason in ahead.missing if isinstance(runner, _Native)]
        return outputs

    @property
    def uncompiled(self) -> list[str]:
        """A reason for each subgraph without code, or without code for inputs that were prepared."""
        reasons = [reason for missing in self._missing.copy().values() for _, reason in missing]
        reported = {id(runner) for missing in self._missing.copy().values() for runner, _ in missing}
        for runner in self._natives():
            if id(runner) not in reported and not any(code.own_programs or code.steps for code in runner.codes()):
                reasons.append(f"no run has reached the subgraph that computes {_quoted(runner.step.outputs)}")
        for code in self._codes():
            reasons += code.steps.uncompiled if isinstance(code.steps, LoadedPlan) else []
        return list(dict.fromkeys(reasons))

    def _natives(self) -> Iterator[_Native]:
        for runner in self._runners:
            yield from [runner] if isinstance(runner, _Native) else runner.bodies

    @property
    def programs(self) -> tuple[Program, ...]:
        """The code of all subgraphs compiled so far."""
        return tuple(program for code in self._codes() for program in code.programs)

    @property
    def fallbacks(self) -> tuple[Fallback, ...]:
        """The nodes on the host, in execution order; those within subgraphs as far as they are known."""
        found: list[Fallback] = []
        for runner in self._runners:
            found += [] if isinstance(runner, _Native) else [runner.step.fallback]
            found += dict.fromkeys(item for code in runner.codes() if code.steps for item in code.steps.fallbacks)
        return tuple(found)

    @property
    def share(self) -> HostShare:
        """The share of the runs so far that was done on the host."""
        total = HostShare()
        for runner in self._runners:
            seconds = runner.nanoseconds / 1e9
            total.seconds += seconds
            if isinstance(runner, _Native):
                total.ops += len(runner.step.nodes)
            else:
                total.ops += 1
                total.host_ops += 1
                total.host_seconds += seconds
            for code in runner.codes():
                if isinstance(code.steps, LoadedPlan):
                    total.host_ops += code.steps.share.host_ops
                    total.host_seconds += code.steps.share.host_seconds
        return total

    def stored(self) -> ExecutionPlan:
        """Returns the plan with all code compiled so far, for an artefact."""
        return replace(self.plan, steps=tuple(runner.stored() for runner in self._runners))

    def _codes(self) -> Iterator[Specializations]:
        for runner in self._runners:
            yield from runner.codes()


class _Host:
    """A node on the host, ready to run."""

    def __init__(self, step: HostStep, recorder: CallRecorder | None) -> None:
        self.step = step
        self.nanoseconds = 0
        self._recorder = recorder
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
    def bodies(self) -> Sequence[_Native]:
        return ()

    def prepare(self, inputs: Sequence[Known], ahead: Ahead, contents: Contents) -> list[Known]:
        if ahead.foresight is None:
            return [UNKNOWN] * len(self.step.outputs)
        held = {name: contents(position) for position, name in enumerate(self.step.inputs)}
        known = {name: array for name, array in held.items() if array is not None}
        return ahead.foresight.outputs_of(self.step, dict(zip(self.step.inputs, inputs, strict=True)), known)

    def codes(self) -> Sequence[Specializations]:
        return ()

    def stored(self) -> HostStep:
        return self.step


class _Control:
    """A control-flow node on the host, ready to run."""

    def __init__(
        self, step: ControlStep, compile_piece: PieceCompiler | None, name: str, recorder: CallRecorder | None
    ) -> None:
        self.step = step
        self.nanoseconds = 0
        self._recorder = recorder
        self.bodies = [_Native(body, compile_piece, name, recorder) for body in step.bodies]

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

    def _body(self, index: int, known: dict[str, Any], threads: int) -> control.Body:
        """Returns a function that runs one of the graphs on the graph's own inputs."""
        runner = self.bodies[index]

        def run(values: Sequence[Any]) -> Sequence[Any]:
            around = [known[name] for name in runner.step.inputs[len(values) :]]
            return runner.run([*values, *around], threads)

        return run

    @property
    def can_run_ahead(self) -> bool:
        return False  # the number of iterations may depend on computed data

    def prepare(self, inputs: Sequence[Known], ahead: Ahead, contents: Contents) -> list[Known]:
        return prepare_control(self.step, self.bodies, inputs, ahead, contents)

    def codes(self) -> Sequence[Specializations]:
        return [code for body in self.bodies for code in body.codes()]

    def stored(self) -> ControlStep:
        return replace(self.step, bodies=tuple(body.stored() for body in self.bodies))


def _runner(
    step: Step, compile_piece: PieceCompiler | None, name: str, recorder: CallRecorder | None
) -> _Host | _Control | _Native:
    if isinstance(step, HostStep):
        return _Host(step, recorder)
    if isinstance(step, ControlStep):
        return _Control(step, compile_piece, name, recorder)
    return _Native(step, compile_piece, name, recorder)


class _Native:
    """A compiled subgraph, ready to run: code for each combination of element types that occurs."""

    def __init__(
        self, step: NativeStep, compile_piece: PieceCompiler | None, name: str, recorder: CallRecorder | None
    ) -> None:
        self.step = step
        self.nanoseconds, self.runs = 0, 0
        self._compile_piece, self._name, self._recorder = compile_piece, name, recorder
        self._by_kinds: dict[Kinds, Specializations] = {}
        for variant in step.variants:
            self._by_kinds[variant.kinds] = self._new_code(variant.kinds, variant)

    def run(self, values: Sequence[Any], threads: int) -> Sequence[Any]:
        kinds = tuple([value.dtype.name if isinstance(value, np.ndarray) else "" for value in values])
        code = self._by_kinds.get(kinds) or self._by_kinds.setdefault(kinds, self._new_code(kinds))
        shapes = tuple([value.shape if isinstance(value, np.ndarray) else () for value in values])
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

    def prepare(self, inputs: Sequence[Known], ahead: Ahead, contents: Contents) -> list[Known]:
        unknown = [name for name, known in zip(self.step.inputs, inputs, strict=True) if known.info is None]
        if unknown:
            return self._skip(ahead, f"the shape of {_quoted(unknown)} is known only at run time")
        infos = [known.info for known in inputs if known.info is not None]
        kinds = tuple(info.dtype.name if info.kind == "tensor" else "" for info in infos)
        code = self._by_kinds.get(kinds) or self._by_kinds.setdefault(kinds, self._new_code(kinds))
        shapes = tuple(tuple(int(dim) for dim in info.shape) for info in infos)
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
            return [Known(info) for info in made.outputs]
        return made.prepare(inputs, held)

    def _skip(self, ahead: Ahead, reason: str) -> list[Known]:
        ahead.missing.append((self, reason))
        return [UNKNOWN] * len(self.step.outputs)

    def codes(self) -> Sequence[Specializations]:
        return tuple(self._by_kinds.copy().values())

    def stored(self) -> NativeStep:
        variants = []
        for kinds, code in self._by_kinds.copy().items():
            plan = code.steps.stored() if isinstance(code.steps, LoadedPlan) else None
            variants.append(Variant(kinds, code.own_programs, plan))
        return replace(self.step, variants=tuple(variants))

    def _new_code(self, kinds: Kinds, variant: Variant | None = None) -> Specializations:
        infos = [TensorInfo(name, _dtype(kind), ()) for name, kind in zip(self.step.inputs, kinds, strict=True)]
        made = None if self._compile_piece is None else self._compile_piece(self.step, kinds)
        specialize, on_host, inner = (made.specialize, made.on_host, made.compile_piece) if made else (None, None, None)
        foresight = None if made is None else made.foresight
        programs = variant.programs if variant is not None else ()
        code = Specializations(infos, programs, specialize, self._name, on_host=on_host, recorder=self._recorder)
        if variant is not None and variant.plan is not None:
            code.steps = LoadedPlan(variant.plan, inner, self._name, self._recorder, foresight)
        return code


def _is_unsupported(program: Program) -> bool:
    """Returns whether this machine cannot run a program."""
    return bool(devices.missing(program.target))


def _shapes_of(values: Sequence[Any]) -> tuple:
    return tuple([value.shape if isinstance(value, np.ndarray) else () for value in values])


def _quoted(names: Sequence[str]) -> str:
    return " and ".join(f"'{name}'" for name in names)


def _dtype(kind: str) -> np.dtype:
    if kind in ("", "object"):
        return np.dtype(object)
    try:
        return np.dtype(kind)
    except TypeError:
        import ml_dtypes  # needed only by models with such elements

        return np.dtype(getattr(ml_dtypes, kind))


def _last_uses(plan: ExecutionPlan) -> list[list[str]]:
    """Returns, for each step, the values that are not needed after it."""
    needed, released = set(plan.outputs), []
    for step in reversed(plan.steps):
        names = {*step.inputs, *step.outputs} - needed
        released.append(sorted(names))
        needed |= names
    return released[::-1]


def _unshared_outputs(plan: ExecutionPlan) -> set[str]:
    """Returns the outputs whose memory is not shared: compiled code produced them, and no host node received them."""
    made = {name for step in plan.steps if isinstance(step, NativeStep) for name in step.outputs}
    return made - {name for step in plan.steps if not isinstance(step, NativeStep) for name in step.inputs}


def _identities(values: Sequence[Any]) -> Iterator[int]:
    for value in values:
        yield id(value)
        if isinstance(value, list):
            yield from _identities(value)


def _unshared(value: Any, given: set[int]) -> Any:
    """Returns a value that shares no memory with the caller's inputs or earlier outputs."""
    if isinstance(value, list):
        return [_unshared(item, given) for item in value]
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, np.ndarray) and (id(value) in given or value.base is not None or not value.flags.writeable):
        return value.copy()
    return value
