"""The `.stw` file: a compiled model as a zip file of uncompressed members, which can be memory-mapped.

    manifest.json               the contents; size and SHA-256 of every other member
    parameters.safetensors      every parameter once, named by a hash of its contents
    programs/<n>.so             the code of a program as a shared library, or
    objects/<SHA-256>.o         as relocatable objects, each stored once; beside a library only the objects of its
                                entry function, which profiler.py links again
    objects/<SHA-256>.ptx       of a GPU program: the code of its launches, kernel by kernel; optionally with the
                                machine code beside it, as .cubin
    nodes/<SHA-256>.onnx        a node that runs on the host
    facts/<SHA-256>.json.zlib   the compiler's facts about a program, for its report
    model                       optional: the model itself, from which a compiler generates code for further shapes

`read` checks everything before it is used: it rejects a file that is truncated, altered, of another schema, or built
for another processor, and reports which.
"""

from __future__ import annotations

import hashlib
import io
import mmap
import os
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import IO, TypeVar

import numpy as np

from ...support.errors import ArtefactError
from ...support.large_file import LargeFile
from ...support.short_repr import short_repr
from .. import safetensors
from ..devices import registry as devices
from ..hybrid.plan import ExecutionPlan, HostStep, NativeStep, PlanStep, Variant
from ..program import ANY_RANK, Program, TensorInfo
from .manifest import (
    Manifest,
    Member,
    StoredControlStep,
    StoredHostStep,
    StoredNativeStep,
    StoredParameter,
    StoredPlan,
    StoredProgram,
    StoredStep,
    decode,
)

MANIFEST = "manifest.json"
PARAMETERS = "parameters.safetensors"
MODEL = "model"

# Minimum size in bytes of files that are mapped: a choice, as 16 MiB are copied in a few milliseconds.
_LARGE_BYTES = 16 << 20
_Read = TypeVar("_Read")


@short_repr
@dataclass(frozen=True)
class ArtefactSource:
    """The model that the code was compiled from.

    Attributes:
        kind: "onnx" or "mlir".
        contents: the file's bytes, or the file itself.
    """

    kind: str
    contents: bytes | LargeFile

    @property
    def data(self) -> bytes:
        """The file's bytes.

        Raises:
            ArtefactError: the file has changed since it was opened.
        """
        return self.contents.read() if isinstance(self.contents, LargeFile) else self.contents


@short_repr
@dataclass(frozen=True)
class Training:
    """The facts about programs that are a training step, and the arrays that it continues.

    Attributes:
        batch: names of the inputs that a caller gives, in order.
        trained: names of the parameters that a step changes.
        state: the contents of the other inputs, by name.
        updates: code for the step of the optimiser, each for one target, if the programs only sum up gradients.
        accumulate: number of batches of a step.
    """

    batch: tuple[str, ...]
    trained: tuple[str, ...]
    state: Mapping[str, np.ndarray]
    updates: tuple[Program, ...] = ()
    accumulate: int = 1


@short_repr
@dataclass(frozen=True)
class Artefact:
    """A compiled model as it is stored.

    Attributes:
        name: the model's name.
        inputs: the inputs of a call; dynamic dimensions are symbols.
        outputs: the outputs of a call.
        programs: code for concrete input shapes, each for one target.
        source: the model itself, from which a compiler can generate further programs.
        plan: the steps, with their programs, of a model some of whose nodes run on the host.
        training: set if the programs are a training step.
    """

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    programs: tuple[Program, ...]
    source: ArtefactSource | None = None
    plan: ExecutionPlan | None = None
    training: Training | None = None


ArtefactFile = str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes]
"""The source of an artefact: a file path, the contents, or a file opened for reading bytes."""


def read(given: ArtefactFile) -> Artefact:
    """Reads a model and checks all of it; of several programs for the same shapes it keeps the best supported one.

    Args:
        given: a file path, the contents, or an open file, which is read to its end.

    Raises:
        ArtefactError: the file is damaged, of another schema, or built for another machine; the message says which.
    """
    return _read(given, _decode)


def read_manifest(path: Path) -> tuple[Manifest, dict[str, np.ndarray]]:
    """Returns the manifest and members of an artefact built for any machine; all of it is checked.

    Raises:
        ArtefactError: the file is damaged or of another schema.
    """
    return _read(path, _manifest)


def _read(given: ArtefactFile, decode: Callable[[dict[str, np.ndarray]], _Read]) -> _Read:
    if not isinstance(given, str | os.PathLike):
        return _read_contents(given, decode)
    path = Path(given)
    if "\0" in str(path):
        raise ArtefactError(f"{str(path)!r} is not a valid file name")
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                raise ArtefactError("the file is empty")
            return decode(_members(file, _image(file, size)))
    except OSError as error:
        raise ArtefactError(f"{path}: {error.strerror or error}") from error
    except ArtefactError as error:
        raise ArtefactError(f"{path}: {error}") from error


def _read_contents(
    given: bytes | bytearray | memoryview | IO[bytes], decode: Callable[[dict[str, np.ndarray]], _Read]
) -> _Read:
    data = given.read() if hasattr(given, "read") else given  # type: ignore[union-attr]
    if not isinstance(data, bytes | bytearray | memoryview):
        kind = type(given if data is given else data).__name__
        raise ArtefactError(f"an artefact is a path, bytes, or a file that is open for reading bytes, not {kind}")
    data = memoryview(data)
    if not data.nbytes:
        raise ArtefactError("the artefact is empty")
    if not data.c_contiguous:
        data = memoryview(data.tobytes())
    file = io.BytesIO(data.cast("B"))
    return decode(_members(file, _copied(file, data.nbytes)))


def _image(file: BufferedReader, size: int) -> np.ndarray:
    """Returns the file's bytes. Small files are copied: truncating a mapped file kills the processes that read it."""
    if size >= _LARGE_BYTES:
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    return _copied(file, size)


def _copied(file: BufferedReader | io.BytesIO, size: int) -> np.ndarray:
    memory = mmap.mmap(-1, size)  # aligns tensors as a mapped file does
    if file.readinto(memory) != size:
        raise ArtefactError("the file has become shorter while it was read")
    image = np.frombuffer(memory, np.uint8)
    image.flags.writeable = False
    return image


def _manifest(members: dict[str, np.ndarray]) -> tuple[Manifest, dict[str, np.ndarray]]:
    if MANIFEST not in members:
        raise ArtefactError(f"the file does not contain {MANIFEST}, so it is not a Stepwell artefact")
    record = decode(members.pop(MANIFEST).tobytes())
    _verify(members, record.members)
    return record, members


def _decode(members: dict[str, np.ndarray]) -> Artefact:
    record, members = _manifest(members)
    tensors = safetensors.view(members[PARAMETERS])
    programs = tuple(_program(entry, members, tensors) for entry in _runnable(record.programs))
    _check_ranks(record, programs)
    plan = None if record.plan is None else _plan(record.plan, members, tensors)
    source = record.source and ArtefactSource(record.source.kind, _member(members, record.source.member))
    training = None
    if record.training is not None:
        state = _parameters(record.training.state, tensors)
        updates = tuple(_program(entry, members, tensors) for entry in _runnable(record.training.updates))
        accumulate = record.training.accumulate
        training = Training(record.training.batch, record.training.trained, state, updates, accumulate)
    return Artefact(record.name, record.inputs, record.outputs, programs, source, plan, training)


def _check_ranks(record: Manifest, programs: Sequence[Program]) -> None:
    """Checks that the programs take the inputs of the model, as far as the ranks of these are declared.

    Raises:
        ArtefactError: one takes others.
    """
    declared = [None if ANY_RANK in info.shape else len(info.shape) for info in record.inputs]
    for number, program in enumerate(programs):
        if program.bounds is not None:  # its last input is a table
            continue
        ranks = [len(shape) for shape in program.input_shapes]
        if len(ranks) != len(declared) or any(
            rank not in (None, found) for rank, found in zip(declared, ranks, strict=True)
        ):
            raise ArtefactError(f"program {number} takes other inputs than the model")


def _plan(plan: StoredPlan, members: Mapping[str, np.ndarray], tensors: Mapping[str, np.ndarray]) -> ExecutionPlan:
    return ExecutionPlan(plan.inputs, plan.outputs, tuple(_step(step, members, tensors) for step in plan.steps))


def _step(step: StoredStep, members: Mapping[str, np.ndarray], tensors: Mapping[str, np.ndarray]) -> PlanStep:
    if isinstance(step, StoredHostStep):
        return HostStep(step.inputs, step.outputs, _member(members, step.member), step.fallback)
    if isinstance(step, StoredControlStep):
        return replace(step.step, bodies=tuple(_native_step(body, members, tensors) for body in step.bodies))
    return _native_step(step, members, tensors)


def _native_step(
    step: StoredNativeStep, members: Mapping[str, np.ndarray], tensors: Mapping[str, np.ndarray]
) -> NativeStep:
    variants = [
        Variant(
            variant.kinds,
            tuple(_program(entry, members, tensors) for entry in _runnable(variant.programs)),
            None if variant.plan is None else _plan(variant.plan, members, tensors),
            variant.shapes,
        )
        for variant in step.variants
    ]
    return NativeStep(step.inputs, step.outputs, step.nodes, tuple(variants), step.body)


def _members(file: BufferedReader | io.BytesIO, image: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the stored members as views of the file's bytes."""
    try:
        with zipfile.ZipFile(file) as archive:
            infos = archive.infolist()
            for info in infos:
                _check_name(info.filename)
            names = [info.filename for info in infos]
            if len(set(names)) != len(names):
                raise ArtefactError(f"member {max(names, key=names.count)} occurs twice")
            if MANIFEST in names:
                archive.read(MANIFEST)  # checks the zip's checksum; the manifest has those of the other members
            return {info.filename: _stored(image, info) for info in infos}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise ArtefactError(f"the file is cut short or damaged: {error}") from error


def _stored(image: np.ndarray, info: zipfile.ZipInfo) -> np.ndarray:
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
        raise ArtefactError(f"member {info.filename} is compressed; artefacts store members uncompressed")
    header = image[info.header_offset : info.header_offset + 30].tobytes()
    if len(header) < 30 or header[:4] != b"PK\x03\x04":
        raise ArtefactError(f"member {info.filename} does not start at the offset given in the zip directory")
    start = info.header_offset + 30 + int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    if start + info.file_size > len(image):
        raise ArtefactError(f"member {info.filename} claims {info.file_size} bytes, but the file ends before")
    return image[start : start + info.file_size]


def _check_name(name: str) -> None:
    parts = name.split("/")
    if "\\" in name or ":" in name or not all(parts) or {".", ".."} & set(parts):
        raise ArtefactError(f"member {name!r} has a path that leaves the archive")


def _verify(members: Mapping[str, np.ndarray], expected: Mapping[str, Member]) -> None:
    wrong = set(members) ^ set(expected)
    if wrong or PARAMETERS not in members:
        raise ArtefactError(f"the members differ from those in the manifest: {', '.join(sorted(wrong)) or PARAMETERS}")
    for name, member in expected.items():
        if len(members[name]) != member.size or hashlib.sha256(members[name].data).hexdigest() != member.sha256:
            raise ArtefactError(f"member {name} is damaged: its size or checksum differs from the manifest's")


def _runnable(programs: Iterable[StoredProgram]) -> list[StoredProgram]:
    """Returns, for each set of inputs, the best program that this machine can run: see `devices.rank`."""
    refused: dict[str, list[str]] = {}
    best: dict[tuple, StoredProgram] = {}
    for program in programs:
        lacking = devices.missing(program.target)
        if lacking:
            refused[str(program.target)] = lacking
            continue
        key = tuple(info.shape for info in program.inputs), program.contents
        if key not in best or devices.rank(program.target) > devices.rank(best[key].target):
            best[key] = program
    if refused and not best:
        needs = "; ".join(f"code for {name} needs {', '.join(lacking)}" for name, lacking in refused.items())
        raise ArtefactError(f"the model does not run on this machine: {needs}")
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
        is_short=entry.is_short,
        guards=entry.guards,
        counts=entry.counts,
        contents=_parameters(entry.contents, tensors),
        bounds=entry.bounds,
        buffers=entry.buffers,
        facts=b"" if entry.facts is None else _member(members, entry.facts),
        launches=entry.launches,
        appended=entry.appended,
    )


def _member(members: Mapping[str, np.ndarray], name: str) -> bytes:
    if name not in members:
        raise ArtefactError(f"the manifest refers to {name}, which is missing")
    return members[name].tobytes()


def _parameters(entries: Iterable[StoredParameter], tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    unknown = [entry.name for entry in entries if entry.tensor not in tensors]
    if unknown:
        raise ArtefactError(f"parameter '{unknown[0]}' is missing")
    try:
        return {
            entry.name: tensors[entry.tensor]
            if entry.shape is None
            else np.broadcast_to(tensors[entry.tensor], entry.shape)
            for entry in entries
        }
    except ValueError as error:
        raise ArtefactError(f"a parameter's shape is wrong: {error}") from error
