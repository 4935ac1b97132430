"""Models that run in steps.

Values are numpy arrays, or what stands for other types: lists for sequences, None for an empty optional, dicts for
maps, arrays of Python objects for strings. A piece is compiled for the shapes that arrive at it, as whole models are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from . import control
from .fallback import Fallback
from .host_step import HostNode
from .plan import ControlStep, HostStep, Kinds, NativeStep, Plan, Step, Variant
from .program import Program, TensorInfo
from .specialization import Specializations, Specialize, Steps

if TYPE_CHECKING:
    from .recorder import Recorder


@dataclass(frozen=True)
class PieceCode:
    """Where the code of a piece comes from.

    Attributes:
        specialize: compiles it for input shapes.
        on_host: runs all of it on the host, for a given reason; None where nothing may.
        compile_piece: the same of pieces of it.
    """

    specialize: Specialize
    on_host: Callable[[str], Steps] | None
    compile_piece: PieceCompiler


PieceCompiler = Callable[[NativeStep, Kinds], PieceCode]
"""Gives what compiles a piece for inputs of given element types."""


@dataclass
class Share:
    """How much of a plan's work is done on the host.

    Attributes:
        host_ops: nodes on the host.
        ops: all nodes.
        host_seconds: what runs have spent in nodes on the host.
        seconds: what runs have spent in all steps.
    """

    host_ops: int = 0
    ops: int = 0
    host_seconds: float = 0.0
    seconds: float = 0.0


class LoadedPlan(Steps):
    """A plan that runs. Calls may come from any number of threads at once."""

    def __init__(
        self, plan: Plan, compile_piece: PieceCompiler | None, name: str = "model", recorder: Recorder | None = None
    ) -> None:
        """Takes a plan.

        Args:
            plan: the steps.
            compile_piece: what makes code for pieces; None where there is no compiler.
            name: the model's name, for messages.
            recorder: what records runs; None where nothing does.
        """
        self.plan = plan
        self._name = name
        self._runners = [_runner(step, compile_piece, name, recorder) for step in plan.steps]
        self._dying = _last_uses(plan)
        self._fresh = _made_by_code(plan)

    def run(self, values: Sequence[Any], threads: int) -> list[Any]:
        """Runs the steps one after the other."""
        known = dict(zip(self.plan.inputs, values, strict=True))
        given = set(_identities(values))
        for runner, dying in zip(self._runners, self._dying, strict=True):
            step = runner.step
            results = runner.run([known[name] for name in step.inputs], threads)
            known.update(zip(step.outputs, results, strict=True))
            for name in dying:
                del known[name]
        outputs = []
        for name in self.plan.outputs:
            value = known[name]
            outputs.append(value if name in self._fresh and id(value) not in given else _own(value, given))
            given.update(_identities(outputs[-1:]))
        return outputs

    def prepare(self, inputs: Sequence[TensorInfo | None]) -> list[TensorInfo | None]:
        """Compiles what can be compiled when only the inputs' types and shapes are known.

        Returns:
            The outputs' types and shapes, None for those that only a run can tell.
        """
        known = dict(zip(self.plan.inputs, inputs, strict=True))
        for runner in self._runners:
            results = runner.prepare([known[name] for name in runner.step.inputs])
            known.update(zip(runner.step.outputs, results, strict=True))
        return [known[name] for name in self.plan.outputs]

    @property
    def programs(self) -> tuple[Program, ...]:
        """The code of all pieces made so far."""
        return tuple(program for code in self._codes() for program in code.programs)

    @property
    def fallbacks(self) -> tuple[Fallback, ...]:
        """The nodes on the host, in the order in which they run; those within pieces as far as is known."""
        found: list[Fallback] = []
        for runner in self._runners:
            found += [] if isinstance(runner, _Native) else [runner.step.fallback]
            found += dict.fromkeys(item for code in runner.codes() if code.steps for item in code.steps.fallbacks)
        return tuple(found)

    @property
    def share(self) -> Share:
        """How much is done on the host, by the runs so far."""
        total = Share()
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

    def stored(self) -> Plan:
        """The plan with all code made so far, for an artefact."""
        return replace(self.plan, steps=tuple(runner.stored() for runner in self._runners))

    def _codes(self) -> Iterator[Specializations]:
        for runner in self._runners:
            yield from runner.codes()


class _Host:
    """A node on the host, ready to run."""

    def __init__(self, step: HostStep, recorder: Recorder | None) -> None:
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

    def prepare(self, inputs: Sequence[TensorInfo | None]) -> list[TensorInfo | None]:
        return [None] * len(self.step.outputs)

    def codes(self) -> Sequence[Specializations]:
        return ()

    def stored(self) -> HostStep:
        return self.step


class _Control:
    """A control-flow node on the host, ready to run."""

    def __init__(
        self, step: ControlStep, compile_piece: PieceCompiler | None, name: str, recorder: Recorder | None
    ) -> None:
        self.step = step
        self.nanoseconds = 0
        self._recorder = recorder
        self._bodies = [_Native(body, compile_piece, name, recorder) for body in step.bodies]

    def run(self, values: Sequence[Any], threads: int) -> Sequence[Any]:
        start, before = time.monotonic_ns(), sum(body.nanoseconds for body in self._bodies)
        known = {"": None, **dict(zip(self.step.inputs, values, strict=True))}
        results = dict(zip(self.step.results, self._results(known, threads), strict=False))
        inside = sum(body.nanoseconds for body in self._bodies) - before
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
        """What one of the graphs does to its own inputs."""
        runner = self._bodies[index]

        def run(values: Sequence[Any]) -> Sequence[Any]:
            around = [known[name] for name in runner.step.inputs[len(values) :]]
            return runner.run([*values, *around], threads)

        return run

    def prepare(self, inputs: Sequence[TensorInfo | None]) -> list[TensorInfo | None]:
        return [None] * len(self.step.outputs)

    def codes(self) -> Sequence[Specializations]:
        return [code for body in self._bodies for code in body.codes()]

    def stored(self) -> ControlStep:
        return replace(self.step, bodies=tuple(body.stored() for body in self._bodies))


def _runner(
    step: Step, compile_piece: PieceCompiler | None, name: str, recorder: Recorder | None
) -> _Host | _Control | _Native:
    if isinstance(step, HostStep):
        return _Host(step, recorder)
    if isinstance(step, ControlStep):
        return _Control(step, compile_piece, name, recorder)
    return _Native(step, compile_piece, name, recorder)


class _Native:
    """A compiled piece, ready to run: code for each choice of element types that arrives."""

    def __init__(
        self, step: NativeStep, compile_piece: PieceCompiler | None, name: str, recorder: Recorder | None
    ) -> None:
        self.step = step
        self.nanoseconds = 0
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
        return results

    def prepare(self, inputs: Sequence[TensorInfo | None]) -> list[TensorInfo | None]:
        known = [info for info in inputs if info is not None]
        if len(known) < len(inputs):
            return [None] * len(self.step.outputs)
        kinds = tuple(info.dtype.name if info.kind == "tensor" else "" for info in known)
        code = self._by_kinds.get(kinds) or self._by_kinds.setdefault(kinds, self._new_code(kinds))
        shapes = tuple(tuple(int(dim) for dim in info.shape) for info in known)
        made = code.prepare(shapes, {})
        if isinstance(made, Program):
            return list(made.outputs)
        return made.prepare(known) if isinstance(made, Steps) else [None] * len(self.step.outputs)

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
        programs = variant.programs if variant is not None else ()
        code = Specializations(infos, programs, specialize, self._name, on_host=on_host, recorder=self._recorder)
        if variant is not None and variant.plan is not None:
            code.steps = LoadedPlan(variant.plan, inner, self._name, self._recorder)
        return code


def _dtype(kind: str) -> np.dtype:
    if kind in ("", "object"):
        return np.dtype(object)
    try:
        return np.dtype(kind)
    except TypeError:
        import ml_dtypes  # only models with such elements need it

        return np.dtype(getattr(ml_dtypes, kind))


def _last_uses(plan: Plan) -> list[list[str]]:
    """The values that nothing needs after a step, for each step."""
    needed, dying = set(plan.outputs), []
    for step in reversed(plan.steps):
        names = {*step.inputs, *step.outputs} - needed
        dying.append(sorted(names))
        needed |= names
    return dying[::-1]


def _made_by_code(plan: Plan) -> set[str]:
    """The outputs in memory that nothing else can have: code made them, and no node on the host has seen them."""
    made = {name for step in plan.steps if isinstance(step, NativeStep) for name in step.outputs}
    return made - {name for step in plan.steps if not isinstance(step, NativeStep) for name in step.inputs}


def _identities(values: Sequence[Any]) -> Iterator[int]:
    for value in values:
        yield id(value)
        if isinstance(value, list):
            yield from _identities(value)


def _own(value: Any, given: set[int]) -> Any:
    """A value that shares no memory with what the caller gave or has been given."""
    if isinstance(value, list):
        return [_own(item, given) for item in value]
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, np.ndarray) and (id(value) in given or value.base is not None or not value.flags.writeable):
        return value.copy()
    return value
