"""Files that tools write: never over an input or a file of another kind, and completely or not at all.

Every tool opens the files that its options name through `Outputs`:

    outputs = Outputs(options.model)
    report = outputs.claim("--opt-report", options.opt_report, REPORT)   # refuses before any work is done
    report.write_text(text)

A file that exists is replaced only if its contents show that it is of the kind that the tool writes; its name does not
count. Devices, pipes and `-` (the standard output) are written to as they are.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..runtime.safetensors import MOST_HEADER_BYTES
from .flags import UsageError

_HEAD_BYTES = 64 << 10
"""Bytes at the start of a file that are searched for the marks of its kind: a choice."""
_COMMENT = b"// Written by stepwell"


@dataclass(frozen=True)
class FileKind:
    """A kind of file that a tool writes.

    Attributes:
        name: the kind with its article, for messages.
        recognises: returns whether the contents of a file are of this kind.
    """

    name: str
    recognises: Callable[[Path], bool]


class OutputFile:
    """A file that a tool writes; made by `Outputs.claim`.

    Attributes:
        path: the file, or `-` for the standard output.
    """

    def __init__(self, path: Path, check: Callable[[], None]) -> None:
        self.path = path
        self._stdout: Any = sys.stdout  # messages may be redirected later
        self.check = check
        """Raises UsageError if the file has become one that must not be replaced."""

    @property
    def is_stdout(self) -> bool:
        """True if the output goes to the standard output."""
        return str(self.path) == "-"

    @contextmanager
    def writing(self) -> Iterator[Path]:
        """A path to write to; its contents replace the file if the block ends without an exception.

        Raises:
            UsageError: the file has become one that must not be replaced.
            OSError: the file cannot be written.
        """
        self.check()
        if self.is_stdout or (self.path.exists() and not self.path.is_file()):  # a device or a pipe is not seekable
            with tempfile.TemporaryDirectory(prefix="stepwell-") as folder:
                made = Path(folder, f"output{self.path.suffix}")
                yield made
                target = nullcontext(self._stdout.buffer) if self.is_stdout else self.path.open("wb")
                with open(made, "rb") as file, target as to:
                    shutil.copyfileobj(file, to)
                    to.flush()
            return
        path = Path(os.path.realpath(self.path))  # a link stays a link
        temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
        try:
            if not path.parent.is_dir():
                raise FileNotFoundError(errno.ENOENT, "cannot be written: there is no such folder", str(self.path))
            yield temporary
            if path.exists():
                shutil.copymode(path, temporary)
            os.replace(temporary, path)
        except OSError as error:
            if str(error.filename) == str(temporary):
                error.filename, error.filename2 = str(self.path), None
            raise
        finally:
            temporary.unlink(missing_ok=True)

    def write_text(self, text: str) -> None:
        """Writes text as UTF-8; invalid characters of file names become `?`."""
        self.write_bytes(text.encode("utf-8", errors="replace"))

    def write_bytes(self, data: bytes) -> None:
        """Writes bytes."""
        with self.writing() as path:
            path.write_bytes(data)


class Outputs:
    """The files that one run of a tool writes.

    Args:
        inputs: the files that the run reads; None for an input that was not given.
    """

    def __init__(self, *inputs: str | os.PathLike[str] | None) -> None:
        self._inputs = [path for given in inputs if given is not None for path in _with_companions(Path(given))]
        self._claimed: dict[str, str] = {}

    @property
    def use_stdout(self) -> bool:
        """True if a file goes to the standard output."""
        return "-" in self._claimed

    def claim(self, option: str, path: str | os.PathLike[str], kind: FileKind) -> OutputFile:
        """Returns the file at `path`, after checking that writing it loses nothing.

        Args:
            option: the option that names the file, for messages.
            path: the file; `-` is the standard output.
            kind: what will be written.

        Raises:
            UsageError: it is an input, a folder, a file of another kind, or named by two options.
        """
        where = Path(path)
        place = str(where) if str(where) == "-" else os.path.realpath(where)
        if place in self._claimed:
            raise UsageError(f"{option} {where}: {self._claimed[place]} names the same file; write to another one")
        self._claimed[place] = option

        def check() -> None:
            if str(where) != "-":
                _refuse_loss(option, where, kind, self._inputs)

        check()
        return OutputFile(where, check)

    @contextmanager
    def messages(self) -> Iterator[None]:
        """Within the block, print() writes to stderr if a file goes to the standard output."""
        if not self.use_stdout:
            yield
            return
        with redirect_stdout(sys.stderr):
            yield


def default_name(model: str, suffix: str) -> str:
    """The default output file: in the current folder, named after the model."""
    return f"{Path(model).stem or 'model'}{suffix}"


def _refuse_loss(option: str, path: Path, kind: FileKind, inputs: Iterable[Path]) -> None:
    """Raises UsageError if writing `path` would destroy an input or a file of another kind."""
    try:
        if not path.exists():
            return
        if path.is_dir():
            raise UsageError(f"{option} {path}: this is a folder; name a file")
        if not path.is_file():
            return
        same = next((each for each in inputs if each.is_file() and os.path.samefile(each, path)), None)
        if same is not None:
            raise UsageError(f"{option} {path}: this file is an input ({same}) and would be lost; write to another one")
        if path.stat().st_size and not kind.recognises(path):
            raise UsageError(
                f"{option} {path}: the file exists and is not {kind.name}, so it is left as it is; "
                "remove it, or write to another one"
            )
    except ValueError as error:  # a zero byte in the name
        raise UsageError(f"{option} {str(path)!r}: {error}") from None


def _with_companions(path: Path) -> list[Path]:
    """Returns a file that is read, and those read with it."""
    return [path, path.with_name("parameters.safetensors")] if path.suffix in (".mlir", ".mlirbc") else [path]


def _head(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(_HEAD_BYTES)


def _magic(*starts: bytes) -> Callable[[Path], bool]:
    return lambda path: _head(path).startswith(starts)


def _members(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return []


def _is_artefact(path: Path) -> bool:
    return "manifest.json" in _members(path)


def _is_arrays(path: Path) -> bool:
    names = _members(path)
    return bool(names) and all(name.endswith(".npy") for name in names)


def _is_ir(path: Path) -> bool:
    if _head(path).startswith(_COMMENT):
        return True
    from ..dialects import discardable  # imported late: it loads MLIR

    mark = f'{discardable.PHASE.name} = "'.encode()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return text.find(mark) >= 0  # location aliases come first, and may be long


def _is_parameters(path: Path) -> bool:
    head = _head(path)
    length = int.from_bytes(head[:8], "little")
    return len(head) > 9 and length <= MOST_HEADER_BYTES and head[8:].startswith(PARAMETERS_START)


def _is_picture(path: Path) -> bool:
    head = _head(path)
    return head.startswith((b"\x89PNG\r\n\x1a\n", b"%PDF-")) or (head.startswith(b"<?xml") and b"<svg" in head)


def _has_keys(*keys: str) -> Callable[[Path], bool]:
    def recognises(path: Path) -> bool:
        try:
            record: Any = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            return False
        return isinstance(record, dict) and all(key in record for key in keys)

    return recognises


def any_of(name: str, *kinds: FileKind) -> FileKind:
    """Returns a kind that accepts files of any of several kinds."""
    return FileKind(name, lambda path: any(kind.recognises(path) for kind in kinds))


PARAMETERS_START = b'{"__metadata__":{"made_by":"stepwell"}'
ARTEFACT = FileKind("an artefact (.stw)", _is_artefact)
IR = FileKind("IR that Stepwell wrote", _is_ir)
PARAMETERS = FileKind("parameters that Stepwell wrote", _is_parameters)
REPORT = FileKind("a report of stepwell-compile", _has_keys("schema", "summary", "programs", "host"))
TRACE = FileKind("a profile of stepwell-run", _has_keys("traceEvents", "stepwell"))
PICTURE = FileKind("a picture (.svg, .png, .pdf)", _is_picture)
MEMORY = any_of(
    "a picture (.svg, .png, .pdf) or a record of memory", PICTURE, FileKind("", _has_keys("schema", "arena_bytes"))
)
ARRAYS = FileKind("an .npz file", _is_arrays)
PAGE = FileKind("a page of stepwell-explore", lambda path: b'<meta name="generator" content="stepwell' in _head(path))
COMMAND = FileKind("a command that Stepwell wrote", _magic(b"stepwell-"))
REMARKS = FileKind("optimisation remarks in YAML", _magic(b"--- !"))
QUANTIZED = FileKind("a model of stepwell-quantize", lambda path: b"stepwell.quantization" in path.read_bytes())
QUANTIZED_REPORT = any_of(
    "a report of stepwell-quantize",
    FileKind("", lambda path: b"<!-- Written by stepwell-quantize -->" in _head(path)),
    FileKind("", _has_keys("schema", "products", "narrowest")),
)
TUNING = FileKind("tuned schedules of stepwell-tune", _has_keys("schema", "compiler", "machine", "kernels"))
TUNING_REPORT = FileKind("a report of stepwell-tune", lambda path: b"<!-- Written by stepwell-tune -->" in _head(path))
FIGURES = FileKind("figures of stepwell-bench", _has_keys("schema", "what", "rows"))
NEW_SIZES = FileKind("figures of stepwell-bench new-sizes", _has_keys("schema", "threads", "models"))
RANGE_FIGURES = FileKind("figures of stepwell-bench ranges", _has_keys("schema", "threads", "models"))
