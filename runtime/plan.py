"""Models that run in steps: compiled pieces, and between them nodes on the host.

Values are numpy arrays, or what stands for other types: lists for sequences, None for an empty optional, dicts for
maps, arrays of Python objects for strings. A piece is compiled for the shapes that arrive at it, as whole models are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .fallback import Fallback
from .host_step import HostNode
from .program import Program, TensorInfo
from .specialization import Specializations, Specialize, Steps
from .workspace import LoadedProgram

Kinds = tuple[str, ...]
"""What a piece takes: numpy's names of element types, "" for what is no array."""


@dataclass(frozen=True)
class HostStep:
    """A node that runs on the host.

    Attributes:
        inputs: the values that it takes, by name.
        outputs: the values that it makes.
        model: the node with all that it needs, as an ONNX model.
        fallback: which node it is, and why it is not compiled.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    model: bytes
    fallback: Fallback


@dataclass(frozen=True)
class Variant:
    """The code of a piece for one choice of element types: programs, or steps again.

    Attributes:
        kinds: the element types of its inputs.
        programs: the code made so far.
        plan: the steps that it is itself cut into; None where all of it is compiled.
    """

    kinds: Kinds
    programs: tuple[Program, ...] = ()
    plan: Plan | None = None


@dataclass(frozen=True)
class NativeStep:
    """A piece of the model that is compiled.

    Attributes:
        inputs: the values that it takes, by name.
        outputs: the values that it makes.
        nodes: the positions of its nodes in the graph that was cut.
        variants: the code made so far, where the plan comes from an artefact.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[int, ...]
    variants: tuple[Variant, ...] = ()


@dataclass(frozen=True)
class Plan:
    """A model, or a piece of one, as steps in the order in which they run.

    Attributes:
        inputs: the names of what a call takes, in order.
        outputs: the names of what it gives, in order.
        steps: what it does.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[HostStep | NativeStep, ...]

    @property
    def fallbacks(self) -> tuple[Fallback, ...]:
        """The nodes on the host."""
        return tuple(step.fallback for step in self.steps if isinstance(step, HostStep))

    def merged(self, other: Plan) -> Plan:
        """This plan with the code of another one too, made for another target."""
        pairs = zip(self.steps, other.steps, strict=True)
        steps = [step if isinstance(step, HostStep) else _merged(step, theirs) for step, theirs in pairs]
        return replace(self, steps=tuple(steps))


def _merged(step: NativeStep, other: HostStep | NativeStep) -> NativeStep:
    if isinstance(other, HostStep):
        raise ValueError("plans of different models cannot be merged")
    variants = {variant.kinds: variant for variant in step.variants}
    for theirs in other.variants:
        mine = variants.setdefault(theirs.kinds, Variant(theirs.kinds))
        plan = mine.plan.merged(theirs.plan) if mine.plan and theirs.plan else mine.plan or theirs.plan
        variants[theirs.kinds] = Variant(theirs.kinds, mine.programs + theirs.programs, plan)
    return replace(step, variants=tuple(variants.values()))


PieceCompiler = Callable[[NativeStep, Kinds], Specialize]
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

    def __init__(self, plan: Plan, compile_piece: PieceCompiler | None, name: str = "model") -> None:
        """Takes a plan.

        Args:
            plan: the steps.
            compile_piece: what makes code for pieces; None where there is no compiler.
            name: the model's name, for messages.
        """
        self.plan = plan
        self._name = name
        self._runners = [
            _Host(step) if isinstance(step, HostStep) else _Native(step, compile_piece, name) for step in plan.steps
        ]
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
            found += [runner.step.fallback] if isinstance(runner, _Host) else []
            found += dict.fromkeys(item for code in runner.codes() if code.steps for item in code.steps.fallbacks)
        return tuple(found)

    @property
    def share(self) -> Share:
        """How much is done on the host, by the runs so far."""
        total = Share()
        for runner in self._runners:
            seconds = runner.nanoseconds / 1e9
            total.seconds += seconds
            if isinstance(runner, _Host):
                total.ops += 1
                total.host_ops += 1
                total.host_seconds += seconds
                continue
            total.ops += len(runner.step.nodes)
            for code in runner.codes():
                if isinstance(code.steps, LoadedPlan):
                    total.host_ops += code.steps.share.host_ops
                    total.host_seconds += code.steps.share.host_seconds
        return total

    def stored(self) -> Plan:
        """The plan with all code made so far, for an artefact."""
        steps = [runner.stored() if isinstance(runner, _Native) else runner.step for runner in self._runners]
        return Plan(self.plan.inputs, self.plan.outputs, tuple(steps))

    def _codes(self) -> Iterator[Specializations]:
        for runner in self._runners:
            yield from runner.codes()


class _Host:
    """A node on the host, ready to run."""

    def __init__(self, step: HostStep) -> None:
        self.step = step
        self.nanoseconds = 0
        self._node = HostNode(step.model, f"node '{step.fallback.node}' ({step.fallback.op_type})")

    def run(self, values: Sequence[Any], threads: int) -> Sequence[Any]:
        start = time.perf_counter_ns()
        results = self._node.run(dict(zip(self.step.inputs, values, strict=True)))
        self.nanoseconds += time.perf_counter_ns() - start
        return results

    def prepare(self, inputs: Sequence[TensorInfo | None]) -> list[TensorInfo | None]:
        return [None] * len(self.step.outputs)

    def codes(self) -> Sequence[Specializations]:
        return ()


class _Native:
    """A compiled piece, ready to run: code for each choice of element types that arrives."""

    def __init__(self, step: NativeStep, compile_piece: PieceCompiler | None, name: str) -> None:
        self.step = step
        self.nanoseconds = 0
        self._compile_piece, self._name = compile_piece, name
        self._by_kinds: dict[Kinds, Specializations] = {}
        for variant in step.variants:
            self._by_kinds[variant.kinds] = self._new_code(variant.kinds, variant)

    def run(self, values: Sequence[Any], threads: int) -> Sequence[Any]:
        kinds = tuple([value.dtype.name if isinstance(value, np.ndarray) else "" for value in values])
        code = self._by_kinds.get(kinds) or self._by_kinds.setdefault(kinds, self._new_code(kinds))
        shapes = tuple([value.shape if isinstance(value, np.ndarray) else () for value in values])
        loaded = code.loaded.get(shapes)
        if type(loaded) is not LoadedProgram:
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
        return NativeStep(self.step.inputs, self.step.outputs, self.step.nodes, tuple(variants))

    def _new_code(self, kinds: Kinds, variant: Variant | None = None) -> Specializations:
        infos = [TensorInfo(name, _dtype(kind), ()) for name, kind in zip(self.step.inputs, kinds, strict=True)]
        specialize = None if self._compile_piece is None else self._compile_piece(self.step, kinds)
        programs = variant.programs if variant is not None else ()
        code = Specializations(infos, programs, specialize, self._name)
        if variant is not None and variant.plan is not None:
            code.steps = LoadedPlan(variant.plan, getattr(specialize, "compile_piece", None), self._name)
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
    return made - {name for step in plan.steps if isinstance(step, HostStep) for name in step.inputs}


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
