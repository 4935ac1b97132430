"""Hybrid execution plans: a model as compiled subgraphs with host nodes between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...support.short_repr import short_repr
from ...support.wording import quantity
from ..host.fallback import Fallback, read_fallback
from ..program import Program
from .control import Sliced, Stacked

Kinds = tuple[str, ...]
"""The types of a subgraph's inputs: numpy names of element types, "" for values other than arrays."""

FEWEST_OPERANDS = {"If": 1, "Loop": 2, "Scan": 1}
"""Minimum number of operands of each control-flow operator; a Loop's may be empty names."""


@short_repr
@dataclass(frozen=True)
class HostStep:
    """A node that runs on the host.

    Attributes:
        inputs: names of the values it takes.
        outputs: names of the values it computes.
        model: the node with all its data, as an ONNX model.
        fallback: the node's identity, and why it is not compiled.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    model: bytes
    fallback: Fallback


@short_repr
@dataclass(frozen=True)
class Variant:
    """The code of a subgraph for one combination of element types: programs, or steps again.

    Attributes:
        kinds: element types of its inputs.
        programs: the code compiled so far.
        plan: the steps it is itself cut into; None if all of it is compiled.
        shapes: the shapes of its inputs, with the names of the sizes that programs for ranges serve; empty if they have
            none.
    """

    kinds: Kinds
    programs: tuple[Program, ...] = ()
    plan: ExecutionPlan | None = None
    shapes: tuple[tuple[int | str, ...], ...] = ()


@short_repr
@dataclass(frozen=True)
class NativeStep:
    """A subgraph of the model that is compiled.

    Attributes:
        inputs: names of the values it takes.
        outputs: names of the values it computes.
        nodes: positions of its nodes in the graph that was cut.
        variants: the code compiled so far, if the plan comes from an artefact.
        body: position of the node, and its attribute, if this is a graph inside that node.
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
        inputs: names of the values that it and its bodies take.
        outputs: names of the values that later steps take from it.
        operator: If, Loop or Scan.
        operands: the node's own inputs, "" for omitted ones.
        results: the node's outputs, "" for omitted ones.
        bodies: the graphs inside it; each takes its own inputs, then values of the enclosing graphs.
        carried: number of loop-carried values.
        slicing: specifications of the sliced inputs of a Scan.
        stacks: specifications of the stacked outputs.
        fallback: the node's identity, and why it is not compiled.
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


PlanStep = HostStep | NativeStep | ControlStep


@short_repr
@dataclass(frozen=True)
class ExecutionPlan:
    """A model, or a subgraph, as steps in execution order.

    Attributes:
        inputs: names of the inputs of a call, in order.
        outputs: names of the outputs of a call, in order.
        steps: the steps.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[PlanStep, ...]

    @property
    def fallbacks(self) -> tuple[Fallback, ...]:
        """The nodes on the host."""
        return tuple(step.fallback for step in self.steps if not isinstance(step, NativeStep))

    def missing(self) -> str | None:
        """Returns a value that is used but not computed before; None if all are."""
        known = set(self.inputs)
        for step in self.steps:
            absent = next((name for name in step.inputs if name not in known), None) or _missing_inside(step)
            if absent is not None:
                return absent
            known.update(step.outputs)
        return next((name for name in self.outputs if name not in known), None)

    def merged(self, other: ExecutionPlan) -> ExecutionPlan:
        """Returns this plan with the code of another one, compiled for another target, added."""
        pairs = zip(self.steps, other.steps, strict=True)
        return replace(self, steps=tuple(_merged_step(step, theirs) for step, theirs in pairs))


def _missing_inside(step: PlanStep) -> str | None:
    """Returns a value that a control-flow node reads or returns but that is not available; None if there is none."""
    if not isinstance(step, ControlStep):
        return None
    own = {"If": 0, "Loop": 2 + step.carried, "Scan": step.carried + len(step.slicing)}[step.operator]
    taken = [name for body in step.bodies for name in body.inputs[own:]]
    absent = [name for name in (*step.operands, *taken) if name and name not in step.inputs]
    return next(iter([*absent, *(name for name in step.outputs if name not in step.results)]), None)


def _merged_step(step: PlanStep, other: PlanStep) -> PlanStep:
    if isinstance(step, NativeStep) and isinstance(other, NativeStep):
        return _merged(step, other)
    if isinstance(step, ControlStep) and isinstance(other, ControlStep):
        pairs = zip(step.bodies, other.bodies, strict=True)
        return replace(step, bodies=tuple(_merged(body, theirs) for body, theirs in pairs))
    return step


def _merged(step: NativeStep, other: NativeStep) -> NativeStep:
    variants = {(variant.kinds, variant.shapes): variant for variant in step.variants}
    for theirs in other.variants:
        key = theirs.kinds, theirs.shapes
        mine = variants.setdefault(key, replace(theirs, programs=(), plan=None))
        plan = mine.plan.merged(theirs.plan) if mine.plan and theirs.plan else mine.plan or theirs.plan
        variants[key] = replace(mine, programs=mine.programs + theirs.programs, plan=plan)
    return replace(step, variants=tuple(variants.values()))


def read_control_step(record: Mapping[str, Any], bodies: Sequence[NativeStep]) -> ControlStep:
    """Reads a control-flow node from its fields, in which JSON has turned tuples into lists.

    Raises:
        ValueError, KeyError, TypeError: they are not the fields of such a node.
    """
    operator, carried = str(record["operator"]), int(record["carried"])
    operands = _names(record["operands"])
    if operator not in FEWEST_OPERANDS or len(bodies) != (2 if operator == "If" else 1):
        raise ValueError(f"{operator} with {quantity(len(bodies), 'graph')} is not a control-flow node")
    if len(operands) < FEWEST_OPERANDS[operator]:
        raise ValueError(f"{operator} with {quantity(len(operands), 'operand')} is not a control-flow node")
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
        raise ValueError(f"{entries!r} is not a list of names")
    return tuple(entries)
