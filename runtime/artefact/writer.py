"""Writes a compiled model to a `.stw` file; `reader.py` documents its members."""

from __future__ import annotations

import hashlib
import io
import os
import threading
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ...support.errors import ArtefactError
from ...support.version import VERSION
from .. import safetensors
from ..cuda import assembler
from ..devices.registry import loader_of
from ..hybrid.plan import ControlStep, ExecutionPlan, HostStep, NativeStep, PlanStep
from ..memory import ALIGNMENT, is_splat
from ..program import ENTRY, WORK, Program
from . import linker
from .manifest import (
    Manifest,
    Member,
    StoredControlStep,
    StoredHostStep,
    StoredNativeStep,
    StoredParameter,
    StoredPlan,
    StoredProgram,
    StoredSource,
    StoredStep,
    StoredTraining,
    StoredVariant,
)
from .reader import MANIFEST, MODEL, PARAMETERS, Artefact, ArtefactSource, Training

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time of all members, so that equal models give equal bytes: the earliest that zip files can store."""
_ALIGNMENT_FIELD = 0xD935
"""The zip extra field that Android's tools use to align members; other readers skip it."""


def write(path: Path, model: Artefact, *, cubins: bool = False) -> None:
    """Writes a model atomically; equal models give equal bytes.

    Args:
        path: the file.
        model: the model.
        cubins: whether to store GPU machine code beside the PTX, which requires ptxas.

    Raises:
        ArtefactError: the file cannot be written, or ptxas is missing.
    """
    members = _members_of(model, cubins)
    write_atomically(path, lambda file: _write_members(file, members))


def write_atomically(path: Path, fill: Callable[[BinaryIO], None]) -> None:
    """Writes a file that others see only once it is complete.

    Args:
        path: the file.
        fill: writes the contents.

    Raises:
        ArtefactError: the file cannot be written.
    """
    try:
        if path.exists() and not path.is_file():  # a device must not be replaced; nothing reads half of its contents
            _write(path, fill)
            return
        path = Path(os.path.realpath(path))  # a link remains a link
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_native_id()}")
        try:
            _write(temporary, fill)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except (OSError, ValueError) as error:  # a path that is empty or contains a zero byte raises ValueError
        raise ArtefactError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from error


def encoded(model: Artefact) -> bytes:
    """Returns the contents of the file that `write` writes for a model."""
    file = io.BytesIO()
    _write_members(file, _members_of(model, cubins=False))
    return file.getvalue()


def _members_of(model: Artefact, cubins: bool) -> dict[str, Sequence[bytes | memoryview]]:
    content = _Content(cubins)
    programs = tuple(map(content.add_program, model.programs))
    plan = None if model.plan is None else content.add_plan(model.plan)
    source = None if model.source is None else content.add_source(model.source)
    training = None if model.training is None else content.add_training(model.training)
    members = content.members
    members[PARAMETERS] = safetensors.chunks(content.tensors)
    checksums = {name: _checksum(chunks) for name, chunks in members.items()}
    fields = (model.name, model.inputs, model.outputs, programs, plan, source, checksums, VERSION, training)
    return {MANIFEST: [Manifest(*fields).encode()]} | members


def _write(path: Path, fill: Callable[[BinaryIO], None]) -> None:
    with open(path, "wb") as file:
        fill(file)


def _write_members(file: BinaryIO, members: Mapping[str, Sequence[bytes | memoryview]]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, chunks in members.items():
            _add_member(archive, file, name, chunks)


@dataclass
class _Content:
    """The members of an artefact being written, without duplicates."""

    cubins: bool = False
    members: dict[str, Sequence[bytes | memoryview]] = field(default_factory=dict)
    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    count: int = 0

    def add_plan(self, plan: ExecutionPlan) -> StoredPlan:
        return StoredPlan(plan.inputs, plan.outputs, tuple(map(self._add_step, plan.steps)))

    def _add_step(self, step: PlanStep) -> StoredStep:
        if isinstance(step, ControlStep):
            return StoredControlStep(step, tuple(map(self._add_native_step, step.bodies)))
        return self._add_node(step) if isinstance(step, HostStep) else self._add_native_step(step)

    def _add_node(self, step: HostStep) -> StoredHostStep:
        member = f"nodes/{hashlib.sha256(step.model).hexdigest()}.onnx"
        self.members[member] = [step.model]
        return StoredHostStep(step.inputs, step.outputs, member, step.fallback)

    def _add_native_step(self, step: NativeStep) -> StoredNativeStep:
        variants = [
            StoredVariant(
                variant.kinds,
                tuple(map(self.add_program, variant.programs)),
                None if variant.plan is None else self.add_plan(variant.plan),
                variant.shapes,
            )
            for variant in step.variants
        ]
        return StoredNativeStep(step.inputs, step.outputs, step.nodes, tuple(variants), step.body)

    def add_program(self, program: Program) -> StoredProgram:
        number = self.count
        self.count += 1
        library = program.library
        if library is None and loader_of(program.target).links:
            library = linker.link(program.objects, program.target)
        if library is not None:
            self.members[f"programs/{number}.so"] = [library]
        code = program.objects
        if program.launches is not None and self.cubins:
            code = assembler.with_cubins(code, program.target.cpu)
        kept = [name for name in code if library is None or name in (ENTRY, WORK)]
        objects = {name: f"objects/{hashlib.sha256(code[name]).hexdigest()}.{_suffix(name)}" for name in kept}
        self.members |= {member: [code[name]] for name, member in objects.items()}
        facts = f"facts/{hashlib.sha256(program.facts).hexdigest()}.json.zlib" if program.facts else None
        if facts is not None:
            self.members[facts] = [program.facts]
        return StoredProgram(
            inputs=program.inputs,
            outputs=program.outputs,
            parameters=self._add_parameters(program.parameters),
            arena_bytes=program.arena_bytes,
            target=program.target,
            objects=objects,
            library=None if library is None else f"programs/{number}.so",
            kernels=tuple(program.kernels),
            uses_threads=program.uses_threads,
            is_short=program.is_short,
            guards=tuple(program.guards),
            counts=tuple(program.counts),
            contents=self._add_parameters(program.contents),
            bounds=program.bounds,
            buffers=tuple(program.buffers),
            facts=facts,
            launches=program.launches,
            appended=tuple(program.appended),
        )

    def add_source(self, source: ArtefactSource) -> StoredSource:
        self.members[MODEL] = [source.data]
        return StoredSource(source.kind, MODEL)

    def add_training(self, training: Training) -> StoredTraining:
        state, updates = self._add_parameters(training.state), tuple(map(self.add_program, training.updates))
        return StoredTraining(training.batch, training.trained, state, updates, training.accumulate)

    def _add_parameters(self, parameters: Mapping[str, np.ndarray]) -> tuple[StoredParameter, ...]:
        return tuple(self._add_parameter(name, array) for name, array in parameters.items())

    def _add_parameter(self, name: str, array: np.ndarray) -> StoredParameter:
        splat = is_splat(array)
        stored = np.asarray(array[(0,) * array.ndim]) if splat else np.ascontiguousarray(array).reshape(array.shape)
        digest = hashlib.sha256(f"{stored.dtype.name}{stored.shape}".encode())
        digest.update(stored.reshape(-1).view(np.uint8).data)
        key = digest.hexdigest()[:32]
        self.tensors[key] = stored
        return StoredParameter(name, key, array.shape if splat else None)


def _suffix(name: str) -> str:
    """Returns the file extension of an object."""
    return next((kind for kind in ("ptx", "cubin") if name.endswith(f".{kind}")), "o")


def _checksum(chunks: Iterable[bytes | memoryview]) -> Member:
    digest, size = hashlib.sha256(), 0
    for chunk in chunks:
        digest.update(chunk)
        size += len(chunk)
    return Member(size, digest.hexdigest())


def _add_member(archive: zipfile.ZipFile, file: BinaryIO, name: str, chunks: Sequence[bytes | memoryview]) -> None:
    """Adds a member whose first byte is at a multiple of the alignment, so that mapped tensors are aligned too."""
    info = zipfile.ZipInfo(name, _EPOCH)
    info.file_size = sum(map(len, chunks))
    long = info.file_size >= zipfile.ZIP64_LIMIT // 2
    header = (
        file.tell() + 30 + len(name.encode()) + (20 if long else 0)
    )  # a local header, and the extra field of long members
    gap = -(header + 6) % ALIGNMENT
    info.extra = b"".join(part.to_bytes(2, "little") for part in (_ALIGNMENT_FIELD, 2 + gap, ALIGNMENT)) + bytes(gap)
    with archive.open(info, "w", force_zip64=long) as member:
        for chunk in chunks:
            member.write(chunk)
