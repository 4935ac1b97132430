"""What a model does that runs in steps: compiled pieces, and between them nodes on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .control import Sliced, Stacked
from .fallback import Fallback, read_fallback
from .program import Program
from .short_repr import short_repr
from .wording import quantity

Kinds = tuple[str, ...]
"""What a piece takes: numpy's names of element types, "" for what is no array."""

FEWEST_OPERANDS = {"If": 1, "Loop": 2, "Scan": 1}
"""How many operands a control-flow node has at least; those of a Loop may be empty names."""


@short_repr
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


@short_repr
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


@short_repr
@dataclass(frozen=True)
class NativeStep:
    """A piece of the model that is compiled.

    Attributes:
        inputs: the values that it takes, by name.
        outputs: the values that it makes.
        nodes: the positions of its nodes in the graph that was cut.
        variants: the code made so far, where the plan comes from an artefact.
        body: where it is the graph within a node: the position of that node, and the attribute.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[int, ...]
    variants: tuple[Variant, ...] = ()
    body: tuple[int, str] | None = None


@short_repr
@dataclass(frozen=True)
class ControlStep:
    """A control-flow node that runs on the host, whose bodies are compiled.

    Attributes:
        inputs: the values that it and its bodies take, by name.
        outputs: the values that later steps take from it.
        operator: If, Loop or Scan.
        operands: the node's own inputs, "" for those left out.
        results: the node's outputs, "" likewise.
        bodies: the graphs within it; each takes its own inputs, and then values of the graphs around it.
        carried: how many values go from round to round.
        slicing: how the inputs are sliced, of a Scan.
        stacks: how the results of rounds are stacked.
        fallback: which node it is, and why it is not compiled.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operator: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    bodies: tuple[NativeStep, ...]
    carried: int
    slicing: tuple[Sliced, ...]
    stacks: tuple[Stacked, ...]
    fallback: Fallback


Step = HostStep | NativeStep | ControlStep


@short_repr
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
    steps: tuple[Step, ...]

    @property
    def fallbacks(self) -> tuple[Fallback, ...]:
        """The nodes on the host."""
        return tuple(step.fallback for step in self.steps if not isinstance(step, NativeStep))

    def missing(self) -> str | None:
        """A value that is read or given, and that nothing before provides; None where all is there."""
        known = set(self.inputs)
        for step in self.steps:
            absent = next((name for name in step.inputs if name not in known), None) or _absent_inside(step)
            if absent is not None:
                return absent
            known.update(step.outputs)
        return next((name for name in self.outputs if name not in known), None)

    def merged(self, other: Plan) -> Plan:
        """This plan with the code of another one too, made for another target."""
        pairs = zip(self.steps, other.steps, strict=True)
        return replace(self, steps=tuple(_merged_step(step, theirs) for step, theirs in pairs))


def _absent_inside(step: Step) -> str | None:
    """A value that a control-flow node's graphs take from around it, or that it should give, and that is not there."""
    if not isinstance(step, ControlStep):
        return None
    own = {"If": 0, "Loop": 2 + step.carried, "Scan": step.carried + len(step.slicing)}[step.operator]
    taken = [name for body in step.bodies for name in body.inputs[own:]]
    absent = [name for name in (*step.operands, *taken) if name and name not in step.inputs]
    return next(iter([*absent, *(name for name in step.outputs if name not in step.results)]), None)


def _merged_step(step: Step, other: Step) -> Step:
    if isinstance(step, NativeStep) and isinstance(other, NativeStep):
        return _merged(step, other)
    if isinstance(step, ControlStep) and isinstance(other, ControlStep):
        pairs = zip(step.bodies, other.bodies, strict=True)
        return replace(step, bodies=tuple(_merged(body, theirs) for body, theirs in pairs))
    return step


def _merged(step: NativeStep, other: NativeStep) -> NativeStep:
    variants = {variant.kinds: variant for variant in step.variants}
    for theirs in other.variants:
        mine = variants.setdefault(theirs.kinds, Variant(theirs.kinds))
        plan = mine.plan.merged(theirs.plan) if mine.plan and theirs.plan else mine.plan or theirs.plan
        variants[theirs.kinds] = Variant(theirs.kinds, mine.programs + theirs.programs, plan)
    return replace(step, variants=tuple(variants.values()))


def read_control_step(record: Mapping[str, Any], bodies: Sequence[NativeStep]) -> ControlStep:
    """A control-flow node from its fields, after JSON has made lists of its tuples.

    Raises:
        ValueError, KeyError, TypeError: they are not those of one.
    """
    operator, carried = str(record["operator"]), int(record["carried"])
    operands = _names(record["operands"])
    if operator not in FEWEST_OPERANDS or len(bodies) != (2 if operator == "If" else 1):
        raise ValueError(f"{operator} of {len(bodies)} graphs is no control flow")
    if len(operands) < FEWEST_OPERANDS[operator]:
        raise ValueError(f"{operator} of {quantity(len(operands), 'operand')} is no control flow")
    return ControlStep(
        _names(record["inputs"]),
        _names(record["outputs"]),
        operator,
        operands,
        _names(record["results"]),
        tuple(bodies),
        carried,
        tuple(Sliced(int(entry["axis"]), bool(entry["backwards"])) for entry in record["slicing"]),
        tuple(_stacked(entry) for entry in record["stacks"]),
        read_fallback(record["fallback"]),
    )


def _stacked(entry: Mapping[str, Any]) -> Stacked:
    shape = tuple(int(dim) for dim in entry["shape"])
    return Stacked(str(entry["kind"]), shape, int(entry["axis"]), bool(entry["backwards"]))


def _names(entries: Sequence[Any]) -> tuple[str, ...]:
    if not isinstance(entries, list | tuple) or not all(isinstance(entry, str) for entry in entries):
        raise ValueError(f"{entries!r} is no list of names")
    return tuple(entries)
