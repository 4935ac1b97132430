"""The `.stw` file: a compiled model as a zip whose members are stored as they are, so that they can be mapped.

    manifest.json               what is in it; size and SHA-256 of every other member
    parameters.safetensors      every parameter once, named by its contents
    programs/<n>.so             the code of a program as a shared library, or
    objects/<SHA-256>.o         as relocatable objects, each once; beside a library those of its entry alone, which a
                                profile links anew (profiler.py)
    objects/<SHA-256>.ptx       of a program for GPUs the code of its launches, kernel by kernel; beside it maybe the
                                machine code, as .cubin
    nodes/<SHA-256>.onnx        a node that runs on the host
    facts/<SHA-256>.json.zlib   what the compiler knew of a program, for its report
    model                       optional: the model itself, from which a compiler makes code for further shapes

Nothing in it is believed before it is checked: `read` refuses a file that is cut short, altered, of another schema, or
made for another processor, and says which.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from . import host, linker, safetensors
from .cuda import assembler
from .errors import ArtefactError
from .large_file import LargeFile
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
    StoredVariant,
    decode,
)
from .plan import ControlStep, HostStep, NativeStep, Plan, Step, Variant
from .program import ALIGNMENT, ENTRY, WORK, Program, TensorInfo, is_splat

MANIFEST = "manifest.json"
PARAMETERS = "parameters.safetensors"
MODEL = "model"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_ALIGNMENT_FIELD = 0xD935
"""The zip extra field by which the Android tools align members; other readers skip it."""


@dataclass(frozen=True)
class Source:
    """The model that the code was made from.

    Attributes:
        kind: "onnx" or "mlir".
        contents: the file's bytes, or the file.
    """

    kind: str
    contents: bytes | LargeFile

    @property
    def data(self) -> bytes:
        """The file's bytes.

        Raises:
            ArtefactError: the file is not what it was.
        """
        return self.contents.read() if isinstance(self.contents, LargeFile) else self.contents


@dataclass(frozen=True)
class Artefact:
    """A compiled model as it is stored.

    Attributes:
        name: the model's name.
        inputs: what a call takes; dimensions that may vary are symbols.
        outputs: what a call gives.
        programs: code for concrete input shapes, each for one target.
        source: the model itself, from which a compiler can make more of them.
        plan: the steps of a model of which some nodes run on the host, with their programs.
    """

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    programs: tuple[Program, ...]
    source: Source | None = None
    plan: Plan | None = None


def write(path: Path, model: Artefact, *, cubins: bool = False) -> None:
    """Writes a model; equal models give equal bytes. The file appears whole or not at all.

    Args:
        path: the file.
        model: the model.
        cubins: whether to store machine code for GPUs beside the PTX, which takes ptxas.

    Raises:
        ArtefactError: the file cannot be written there, or there is no ptxas.
    """
    content = _Content(cubins)
    programs = tuple(map(content.add_program, model.programs))
    plan = None if model.plan is None else content.add_plan(model.plan)
    source = None if model.source is None else content.add_source(model.source)
    members = content.members
    members[PARAMETERS] = safetensors.chunks(content.tensors)
    checksums = {name: _checksum(chunks) for name, chunks in members.items()}
    record = Manifest(model.name, model.inputs, model.outputs, programs, plan, source, checksums).encode()
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, chunks in ({MANIFEST: [record]} | members).items():
                _add_member(archive, file, name, chunks)
        os.replace(temporary, path)
    except OSError as error:
        raise ArtefactError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)


@dataclass
class _Content:
    """The members of an artefact that is being written, each content once."""

    cubins: bool = False
    members: dict[str, Sequence[bytes | memoryview]] = field(default_factory=dict)
    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    count: int = 0

    def add_plan(self, plan: Plan) -> StoredPlan:
        return StoredPlan(plan.inputs, plan.outputs, tuple(map(self._add_step, plan.steps)))

    def _add_step(self, step: Step) -> StoredStep:
        if isinstance(step, ControlStep):
            return StoredControlStep(step, tuple(map(self._add_piece, step.bodies)))
        return self._add_node(step) if isinstance(step, HostStep) else self._add_piece(step)

    def _add_node(self, step: HostStep) -> StoredHostStep:
        member = f"nodes/{hashlib.sha256(step.model).hexdigest()}.onnx"
        self.members[member] = [step.model]
        return StoredHostStep(step.inputs, step.outputs, member, step.fallback)

    def _add_piece(self, step: NativeStep) -> StoredNativeStep:
        variants = [
            StoredVariant(
                variant.kinds,
                tuple(map(self.add_program, variant.programs)),
                None if variant.plan is None else self.add_plan(variant.plan),
            )
            for variant in step.variants
        ]
        return StoredNativeStep(step.inputs, step.outputs, step.nodes, tuple(variants), step.body)

    def add_program(self, program: Program) -> StoredProgram:
        number = self.count
        self.count += 1
        library = program.library
        if library is None and program.launches is None:
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
            guards=tuple(program.guards),
            contents=self._add_parameters(program.contents),
            bounds=program.bounds,
            buffers=tuple(program.buffers),
            facts=facts,
            launches=program.launches,
        )

    def add_source(self, source: Source) -> StoredSource:
        self.members[MODEL] = [source.data]
        return StoredSource(source.kind, MODEL)

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
    """What kind of file an object is."""
    return next((kind for kind in ("ptx", "cubin") if name.endswith(f".{kind}")), "o")


def _checksum(chunks: Iterable[bytes | memoryview]) -> Member:
    digest, size = hashlib.sha256(), 0
    for chunk in chunks:
        digest.update(chunk)
        size += len(chunk)
    return Member(size, digest.hexdigest())


def _add_member(archive: zipfile.ZipFile, file: BinaryIO, name: str, chunks: Sequence[bytes | memoryview]) -> None:
    """Adds a member whose first byte is at a multiple of the alignment, so that a mapped tensor is aligned too."""
    info = zipfile.ZipInfo(name, _EPOCH)
    info.file_size = sum(map(len, chunks))
    long = info.file_size >= zipfile.ZIP64_LIMIT // 2
    header = (
        file.tell() + 30 + len(name.encode()) + (20 if long else 0)
    )  # a local header, and the field for long members
    gap = -(header + 6) % ALIGNMENT
    info.extra = b"".join(part.to_bytes(2, "little") for part in (_ALIGNMENT_FIELD, 2 + gap, ALIGNMENT)) + bytes(gap)
    with archive.open(info, "w", force_zip64=long) as member:
        for chunk in chunks:
            member.write(chunk)


def read(path: Path) -> Artefact:
    """Reads a model and checks all of it; of several programs for the same shapes it keeps the best that runs here.

    Raises:
        ArtefactError: the file is damaged, of another schema, or made for another machine; the message says which.
    """
    try:
        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:
                raise ArtefactError("the file is empty")
            image = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
            return _decode(_members(file, image))
    except OSError as error:
        raise ArtefactError(f"{path}: {error.strerror}") from error
    except ArtefactError as error:
        raise ArtefactError(f"{path}: {error}") from error


def _decode(members: dict[str, np.ndarray]) -> Artefact:
    if MANIFEST not in members:
        raise ArtefactError(f"there is no {MANIFEST} in it, so it is no artefact of Stepwell's")
    record = decode(members.pop(MANIFEST).tobytes())
    _verify(members, record.members)
    tensors = safetensors.view(members[PARAMETERS])
    programs = tuple(_program(entry, members, tensors) for entry in _runnable(record.programs))
    plan = None if record.plan is None else _plan(record.plan, members, tensors)
    source = record.source and Source(record.source.kind, _member(members, record.source.member))
    return Artefact(record.name, record.inputs, record.outputs, programs, source, plan)


def _plan(plan: StoredPlan, members: Mapping[str, np.ndarray], tensors: Mapping[str, np.ndarray]) -> Plan:
    return Plan(plan.inputs, plan.outputs, tuple(_step(step, members, tensors) for step in plan.steps))


def _step(step: StoredStep, members: Mapping[str, np.ndarray], tensors: Mapping[str, np.ndarray]) -> Step:
    if isinstance(step, StoredHostStep):
        return HostStep(step.inputs, step.outputs, _member(members, step.member), step.fallback)
    if isinstance(step, StoredControlStep):
        return replace(step.step, bodies=tuple(_piece(body, members, tensors) for body in step.bodies))
    return _piece(step, members, tensors)


def _piece(step: StoredNativeStep, members: Mapping[str, np.ndarray], tensors: Mapping[str, np.ndarray]) -> NativeStep:
    variants = [
        Variant(
            variant.kinds,
            tuple(_program(entry, members, tensors) for entry in _runnable(variant.programs)),
            None if variant.plan is None else _plan(variant.plan, members, tensors),
        )
        for variant in step.variants
    ]
    return NativeStep(step.inputs, step.outputs, step.nodes, tuple(variants), step.body)


def _members(file: BinaryIO, image: np.ndarray) -> dict[str, np.ndarray]:
    """The stored members as views of the file's bytes."""
    try:
        with zipfile.ZipFile(file) as archive:
            infos = archive.infolist()
            for info in infos:
                _check_name(info.filename)
            names = [info.filename for info in infos]
            if len(set(names)) != len(names):
                raise ArtefactError(f"member {max(names, key=names.count)} is there twice")
            if MANIFEST in names:
                archive.read(MANIFEST)  # every checksum but its own is in it; its own is the zip's
            return {info.filename: _stored(image, info) for info in infos}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise ArtefactError(f"the file is cut short or damaged: {error}") from error


def _stored(image: np.ndarray, info: zipfile.ZipInfo) -> np.ndarray:
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
        raise ArtefactError(f"member {info.filename} is not stored as it is")
    header = image[info.header_offset : info.header_offset + 30].tobytes()
    if len(header) < 30 or header[:4] != b"PK\x03\x04":
        raise ArtefactError(f"member {info.filename} does not start where the directory says")
    start = info.header_offset + 30 + int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    if start + info.file_size > len(image):
        raise ArtefactError(f"member {info.filename} claims {info.file_size} bytes, but the file ends before")
    return image[start : start + info.file_size]


def _check_name(name: str) -> None:
    parts = name.split("/")
    if "\\" in name or ":" in name or not all(parts) or {".", ".."} & set(parts):
        raise ArtefactError(f"member {name!r} has a path that leads elsewhere")


def _verify(members: Mapping[str, np.ndarray], expected: Mapping[str, Member]) -> None:
    odd = set(members) ^ set(expected)
    if odd or PARAMETERS not in members:
        raise ArtefactError(f"what is in it differs from its manifest: {', '.join(sorted(odd)) or PARAMETERS}")
    for name, member in expected.items():
        if len(members[name]) != member.size or hashlib.sha256(members[name].data).hexdigest() != member.sha256:
            raise ArtefactError(f"member {name} is damaged: its size or checksum is not the one in the manifest")


def _runnable(programs: Iterable[StoredProgram]) -> list[StoredProgram]:
    """Of the programs for the same inputs the best among those that run on this machine: see `host.rank`."""
    refused: dict[str, list[str]] = {}
    best: dict[tuple, StoredProgram] = {}
    for program in programs:
        lacking = host.missing(program.target)
        if lacking:
            refused[str(program.target)] = lacking
            continue
        key = tuple(info.shape for info in program.inputs), program.contents
        if key not in best or host.rank(program.target) > host.rank(best[key].target):
            best[key] = program
    if refused and not best:
        needs = "; ".join(f"code for {name} needs {', '.join(lacking)}" for name, lacking in refused.items())
        raise ArtefactError(f"it does not run on this machine: {needs}")
    return list(best.values())


def _program(entry: StoredProgram, members: Mapping[str, np.ndarray], tensors: Mapping[str, np.ndarray]) -> Program:
    return Program(
        inputs=entry.inputs,
        outputs=entry.outputs,
        parameters=_parameters(entry.parameters, tensors),
        arena_bytes=entry.arena_bytes,
        target=entry.target,
        objects={name: _member(members, member) for name, member in entry.objects.items()},
        library=None if entry.library is None else _member(members, entry.library),
        kernels=entry.kernels,
        uses_threads=entry.uses_threads,
        guards=entry.guards,
        contents=_parameters(entry.contents, tensors),
        bounds=entry.bounds,
        buffers=entry.buffers,
        facts=b"" if entry.facts is None else _member(members, entry.facts),
        launches=entry.launches,
    )


def _member(members: Mapping[str, np.ndarray], name: str) -> bytes:
    if name not in members:
        raise ArtefactError(f"the manifest speaks of {name}, which is not there")
    return members[name].tobytes()


def _parameters(entries: Iterable[StoredParameter], tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    unknown = [entry.name for entry in entries if entry.tensor not in tensors]
    if unknown:
        raise ArtefactError(f"parameter '{unknown[0]}' is not there")
    try:
        return {
            entry.name: tensors[entry.tensor]
            if entry.shape is None
            else np.broadcast_to(tensors[entry.tensor], entry.shape)
            for entry in entries
        }
    except ValueError as error:
        raise ArtefactError(f"a parameter's shape is wrong: {error}") from error
