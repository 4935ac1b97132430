"""Contents of an artefact: inputs and outputs, programs with targets and shapes, kernels, nodes on the host, sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..runtime import safetensors
from ..runtime.artefact import reader
from ..runtime.artefact.manifest import (
    SCHEMA,
    Manifest,
    StoredControlStep,
    StoredHostStep,
    StoredPlan,
    StoredProgram,
    StoredStep,
)
from ..runtime.devices import registry as devices
from ..runtime.host.fallback import Fallback
from ..runtime.program import TensorInfo

_GROUPS = {"programs": "code", "objects": "code", "nodes": "nodes", "facts": "facts"}
"""Meaning of the folders in an artefact."""


def contents_of(path: Path) -> dict[str, Any]:
    """The contents of an artefact for JSON, with the keys that docs/artefacts.md lists.

    Every byte is checked; programs for other machines are included.

    Raises:
        ArtefactError: the file is damaged, or of another schema.
    """
    manifest, members = reader.read_manifest(path)
    sizes = {name: array.nbytes for name, array in safetensors.view(members[reader.PARAMETERS]).items()}
    own = [(None, program) for program in manifest.programs]
    pieces = [] if manifest.plan is None else list(_programs_of(manifest.plan))
    programs = [_program(piece, program, manifest, sizes) for piece, program in (*own, *pieces)]
    return {
        "schema": 1,
        "file": str(path),
        "bytes": path.stat().st_size,
        "model": manifest.name,
        "made_by": manifest.made_by,
        "artefact_schema": SCHEMA,
        "inputs": list(map(_tensor, manifest.inputs)),
        "outputs": list(map(_tensor, manifest.outputs)),
        "targets": list(dict.fromkeys(program["target"]["name"] for program in programs)),
        "programs": programs,
        "host": [] if manifest.plan is None else [found.record() for found in _host_nodes(manifest.plan)],
        "model_kept": None if manifest.source is None else manifest.source.kind,
        "members": _sizes(manifest),
    }


def _sizes(manifest: Manifest) -> dict[str, int]:
    """Returns the bytes of each kind of member."""
    found: dict[str, int] = dict.fromkeys(("parameters", "code", "nodes", "facts", "model"), 0)
    for name, member in manifest.members.items():
        kind = "parameters" if name == reader.PARAMETERS else _GROUPS.get(name.partition("/")[0], name)
        found[kind] = found.get(kind, 0) + member.size
    return found


def _tensor(info: TensorInfo) -> dict[str, Any]:
    dtype = "string" if info.dtype == object else info.dtype.name
    return {"name": info.name, "type": dtype if info.kind == "tensor" else info.kind, "shape": list(info.shape)}


def _program(
    piece: int | None, program: StoredProgram, manifest: Manifest, tensors: Mapping[str, int]
) -> dict[str, Any]:
    kernels = [
        {
            "name": kernel.name,
            "class": kernel.kind,
            "calls": kernel.calls,
            "flops": kernel.flops,
            "bytes": kernel.bytes,
            "schedule": kernel.schedule,
            "nodes": list(kernel.ops),
        }
        for kernel in program.kernels
    ]
    members = [*program.objects.values(), *([] if program.library is None else [program.library])]
    missing = devices.missing(program.target)
    return {
        "piece": piece,
        "target": {**asdict(program.target), "name": program.target.name, "features": list(program.target.features)},
        "runs_here": not missing,
        "shapes": {info.name: list(info.shape) for info in program.inputs[: _given(program)]},
        "ranges": None
        if program.bounds is None
        else {name: [each.low, each.high, each.step] for name, each in program.bounds.ranges.items()},
        "contents": [item.name for item in program.contents],
        "kernels": kernels,
        "calls": sum(kernel.calls for kernel in program.kernels),
        "flops": sum(kernel.flops * kernel.calls for kernel in program.kernels),
        "parameters_bytes": sum(tensors.get(each.tensor, 0) for each in program.parameters),
        "arena_bytes": program.arena_bytes,
        "code_bytes": sum(manifest.members[name].size for name in dict.fromkeys(members)),
    }


def _given(program: StoredProgram) -> int:
    """Returns the number of inputs that a caller gives; a program for ranges also takes a table of sizes."""
    return len(program.inputs) - (program.bounds is not None)


def _programs_of(plan: StoredPlan) -> Iterator[tuple[int, StoredProgram]]:
    """Yields the programs of a plan, each with the number of its step."""
    for index, step in enumerate(plan.steps):
        yield from ((index, program) for program in _of_step(step))


def _of_step(step: StoredStep) -> Iterator[StoredProgram]:
    if isinstance(step, StoredHostStep):
        return
    for piece in step.bodies if isinstance(step, StoredControlStep) else (step,):
        for variant in piece.variants:
            yield from variant.programs
            if variant.plan is not None:
                yield from (program for _, program in _programs_of(variant.plan))


def _host_nodes(plan: StoredPlan) -> Iterator[Fallback]:
    for step in plan.steps:
        if isinstance(step, StoredHostStep):
            yield step.fallback
            continue
        for piece in step.bodies if isinstance(step, StoredControlStep) else (step,):
            for variant in piece.variants:
                if variant.plan is not None:
                    yield from _host_nodes(variant.plan)
