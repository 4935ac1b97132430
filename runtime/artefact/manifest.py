"""`manifest.json`: the description of an artefact, to and from JSON."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...sizes.bounds import Bounds
from ...sizes.layouts import Appended
from ...support.errors import ArtefactError
from ...support.short_repr import short_repr
from ...support.wording import quantity
from ..host.fallback import Fallback, read_fallback
from ..hybrid.plan import ControlStep, NativeStep, read_control_step
from ..launch_plan import LaunchPlan
from ..program import ArenaBuffer, CodeTarget, Count, KernelInfo, TensorInfo
from .codec import SCHEMA, decode_program, decode_tensors, encode_program, encode_tensors, natural


@dataclass(frozen=True)
class Member:
    """Size and SHA-256 of a file in the artefact."""

    size: int
    sha256: str


@dataclass(frozen=True)
class StoredParameter:
    """The location of a parameter's contents.

    Attributes:
        name: its name in the program.
        tensor: its name among the stored tensors.
        shape: its shape if the stored tensor is a single element that fills it, else None.
    """

    name: str
    tensor: str
    shape: tuple[int, ...] | None = None


@short_repr
@dataclass(frozen=True)
class StoredProgram:
    """A program that refers to its code and parameters by name; see `Program` for the other fields."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    parameters: tuple[StoredParameter, ...]
    arena_bytes: int
    target: CodeTarget
    objects: Mapping[str, str]
    library: str | None
    kernels: tuple[KernelInfo, ...]
    uses_threads: bool
    is_short: bool
    guards: tuple[str, ...]
    counts: tuple[Count, ...]
    contents: tuple[StoredParameter, ...]
    bounds: Bounds | None = None
    buffers: tuple[ArenaBuffer, ...] = ()
    facts: str | None = None
    launches: LaunchPlan | None = None
    appended: tuple[Appended, ...] = ()


@short_repr
@dataclass(frozen=True)
class StoredHostStep:
    """A node on the host, whose model is a member; see `HostStep`."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    member: str
    fallback: Fallback


@short_repr
@dataclass(frozen=True)
class StoredVariant:
    """The code of a subgraph for one combination of element types; see `Variant`."""

    kinds: tuple[str, ...]
    programs: tuple[StoredProgram, ...]
    plan: StoredPlan | None
    shapes: tuple[tuple[int | str, ...], ...]


@short_repr
@dataclass(frozen=True)
class StoredNativeStep:
    """A compiled subgraph; see `NativeStep`."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[int, ...]
    variants: tuple[StoredVariant, ...]
    body: tuple[int, str] | None


@short_repr
@dataclass(frozen=True)
class StoredControlStep:
    """A control-flow node and the stored parts of its bodies; see `ControlStep`."""

    step: ControlStep
    bodies: tuple[StoredNativeStep, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the values it takes."""
        return self.step.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the values it computes."""
        return self.step.outputs


StoredStep = StoredHostStep | StoredNativeStep | StoredControlStep


@short_repr
@dataclass(frozen=True)
class StoredPlan:
    """The steps of a model that runs in steps; see `ExecutionPlan`."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[StoredStep, ...]


@dataclass(frozen=True)
class StoredSource:
    """The model's kind, and the member that contains it."""

    kind: str
    member: str


@short_repr
@dataclass(frozen=True)
class StoredTraining:
    """The names of a training step, and the location of its state; see `Training`."""

    batch: tuple[str, ...]
    trained: tuple[str, ...]
    state: tuple[StoredParameter, ...]
    updates: tuple[StoredProgram, ...] = ()
    accumulate: int = 1


@short_repr
@dataclass(frozen=True)
class Manifest:
    """The description of an artefact."""

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    programs: tuple[StoredProgram, ...]
    plan: StoredPlan | None
    source: StoredSource | None
    members: Mapping[str, Member]
    made_by: str = ""
    """Version of Stepwell that wrote the artefact."""
    training: StoredTraining | None = None

    def encode(self) -> bytes:
        """Returns the manifest as JSON; equal manifests give equal bytes."""
        record = {
            "schema": SCHEMA,
            "made_by": self.made_by,
            "name": self.name,
            "inputs": encode_tensors(self.inputs),
            "outputs": encode_tensors(self.outputs),
            "symbols": sorted({dim for info in self.inputs for dim in info.shape if isinstance(dim, str)}),
            "peak_bytes": max((program.arena_bytes for program in self.programs), default=0),
            "programs": [_program(program) for program in self.programs],
            "plan": None if self.plan is None else _plan(self.plan),
            "source": None if self.source is None else asdict(self.source),
            "training": None if self.training is None else _training(self.training),
            "members": {name: asdict(member) for name, member in sorted(self.members.items())},
        }
        return json.dumps(record, indent=1).encode()


def decode(text: bytes) -> Manifest:
    """Reads a manifest from JSON.

    Raises:
        ArtefactError: it has another schema, or lacks fields of this one.
    """
    try:
        record = json.loads(text)
        schema = record["schema"]
        if schema != SCHEMA:
            raise ArtefactError(
                f"its schema is {schema}, and this version of Stepwell reads schema {SCHEMA}: compile it again"
            )
        return Manifest(
            name=str(record["name"]),
            inputs=decode_tensors(record["inputs"]),
            outputs=decode_tensors(record["outputs"]),
            programs=tuple(_read_program(entry) for entry in record["programs"]),
            plan=None if record["plan"] is None else _read_plan(record["plan"]),
            source=None if record["source"] is None else _read_source(record["source"]),
            members={
                str(name): Member(int(entry["size"]), str(entry["sha256"])) for name, entry in record["members"].items()
            },
            made_by=str(record["made_by"]),
            training=None if record["training"] is None else _read_training(record["training"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArtefactError(f"its manifest does not match schema {SCHEMA}: {error!r}") from error


def _program(program: StoredProgram) -> dict[str, Any]:
    return {
        **encode_program(program),
        "parameters": [asdict(parameter) for parameter in program.parameters],
        "contents": [asdict(parameter) for parameter in program.contents],
        "objects": dict(program.objects),
        "library": program.library,
        "facts": program.facts,
    }


def _read_program(entry: Mapping[str, Any]) -> StoredProgram:
    fields = decode_program(entry)
    return StoredProgram(
        **fields,
        parameters=_read_parameters(entry["parameters"]),
        objects={str(name): str(member) for name, member in entry["objects"].items()},
        library=None if entry["library"] is None else str(entry["library"]),
        contents=_read_contents(entry["contents"], {info.name for info in fields["inputs"]}),
        facts=None if entry["facts"] is None else str(entry["facts"]),
    )


def _training(training: StoredTraining) -> dict[str, Any]:
    return {
        "batch": training.batch,
        "trained": training.trained,
        "state": [asdict(parameter) for parameter in training.state],
        "updates": [_program(program) for program in training.updates],
        "accumulate": training.accumulate,
    }


def _plan(plan: StoredPlan) -> dict[str, Any]:
    return {"inputs": plan.inputs, "outputs": plan.outputs, "steps": [_step(step) for step in plan.steps]}


def _step(step: StoredStep) -> dict[str, Any]:
    if isinstance(step, StoredControlStep):
        record = asdict(replace(step.step, bodies=()))
        return {**record, "kind": "control", "bodies": [_step(body) for body in step.bodies]}
    record: dict[str, Any] = {"inputs": step.inputs, "outputs": step.outputs}
    if isinstance(step, StoredHostStep):
        return {**record, "kind": "host", "member": step.member, "fallback": step.fallback.record()}
    variants = [
        {
            "kinds": variant.kinds,
            "programs": [_program(program) for program in variant.programs],
            "plan": None if variant.plan is None else _plan(variant.plan),
            "shapes": variant.shapes,
        }
        for variant in step.variants
    ]
    return {**record, "kind": "native", "nodes": step.nodes, "variants": variants, "body": step.body}


def _read_plan(record: Mapping[str, Any]) -> StoredPlan:
    """Reads a plan and checks that each step takes only values that are available by then.

    Raises:
        ValueError: a step does not.
    """
    inputs, outputs = _read_names(record["inputs"]), _read_names(record["outputs"])
    steps = tuple(_read_step(entry) for entry in record["steps"])
    known = set(inputs)
    for step in steps:
        if not known.issuperset(step.inputs):
            raise ValueError(f"a step takes {min(set(step.inputs) - known)!r}, which is not computed before")
        known.update(step.outputs)
    if not known.issuperset(outputs):
        raise ValueError(f"no step computes the output {min(set(outputs) - known)!r}")
    return StoredPlan(inputs, outputs, steps)


def _read_step(entry: Mapping[str, Any]) -> StoredStep:
    if entry["kind"] == "control":
        bodies = tuple(map(_read_native_step, entry["bodies"]))
        steps = [NativeStep(body.inputs, body.outputs, body.nodes, (), body.body) for body in bodies]
        return StoredControlStep(read_control_step(entry, steps), bodies)
    if entry["kind"] == "native":
        return _read_native_step(entry)
    inputs, outputs = _read_names(entry["inputs"]), _read_names(entry["outputs"])
    return StoredHostStep(inputs, outputs, str(entry["member"]), read_fallback(entry["fallback"]))


def _read_native_step(entry: Mapping[str, Any]) -> StoredNativeStep:
    inputs, outputs = _read_names(entry["inputs"]), _read_names(entry["outputs"])
    variants = []
    for variant in entry["variants"]:
        kinds, plan = _read_names(variant["kinds"]), variant["plan"]
        if len(kinds) != len(inputs):
            raise ValueError(f"a subgraph takes {quantity(len(inputs), 'value')}, but has code for {len(kinds)}")
        programs = tuple(map(_read_program, variant["programs"]))
        shapes = tuple(map(_read_shape, variant["shapes"]))
        if len(shapes) not in (0, len(inputs)):
            raise ValueError(f"a subgraph takes {quantity(len(inputs), 'value')}, but has {len(shapes)} shapes")
        for program in programs:
            names = tuple(info.name for info in program.inputs)
            if names[: len(inputs)] != inputs or len(names) != len(inputs) + (program.bounds is not None):
                raise ValueError("a program's inputs differ from those of its subgraph")
        variants.append(StoredVariant(kinds, programs, None if plan is None else _read_plan(plan), shapes))
    body = None if entry["body"] is None else (natural(entry["body"][0]), str(entry["body"][1]))
    return StoredNativeStep(inputs, outputs, tuple(map(natural, entry["nodes"])), tuple(variants), body)


def _read_shape(entries: Sequence[Any]) -> tuple[int | str, ...]:
    return tuple(str(dim) if isinstance(dim, str) else natural(dim) for dim in entries)


def _read_names(entries: Sequence[Any]) -> tuple[str, ...]:
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise ValueError(f"{entries!r} is not a list of names")
    return tuple(entries)


def _read_source(entry: Mapping[str, Any]) -> StoredSource:
    return StoredSource(str(entry["kind"]), str(entry["member"]))


def _read_training(entry: Mapping[str, Any]) -> StoredTraining:
    return StoredTraining(
        _read_names(entry["batch"]),
        _read_names(entry["trained"]),
        _read_parameters(entry["state"]),
        tuple(map(_read_program, entry["updates"])),
        natural(entry["accumulate"]),
    )


def _read_parameters(entries: Sequence[Mapping[str, Any]]) -> tuple[StoredParameter, ...]:
    return tuple(
        StoredParameter(
            str(entry["name"]),
            str(entry["tensor"]),
            None if entry["shape"] is None else tuple(natural(dim) for dim in entry["shape"]),
        )
        for entry in entries
    )


def _read_contents(entries: Sequence[Mapping[str, Any]], inputs: Collection[str]) -> tuple[StoredParameter, ...]:
    contents = _read_parameters(entries)
    if any(parameter.name not in inputs for parameter in contents):
        raise ValueError("contents are given for a name that is not an input")
    return contents
