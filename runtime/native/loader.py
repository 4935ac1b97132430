"""Makes native code callable: shared libraries through the system's loader, objects by linking them in memory."""

from __future__ import annotations

import ctypes
import itertools
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...support.errors import ArtefactError, NativeCodeError
from ...support.short_repr import short_repr
from ..program import ENTRY, WORK, Program
from . import elf, orc
from .elf_image import UnsupportedObjectError

_ENTRY_TYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
# For short calls, which keep the interpreter lock. Releasing and reacquiring it takes longer than such a call: two
# sessions in two threads would together be slower than one.
_LOCKED_ENTRY_TYPE = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_WORK_TYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
_MODE = os.RTLD_NOW | os.RTLD_LOCAL

_COUNT = itertools.count()

_OPEN_FILES = "/proc/self/fd"


@short_repr
@dataclass(frozen=True)
class NativeCode:
    """A program's entry, ready to be called.

    Attributes:
        entry: the entry function; takes the address of the table.
        owner: keeps the code in memory while it is referenced.
    """

    entry: Callable[[Any], None]
    owner: ctypes.CDLL | elf.ElfCode | orc.OrcCode

    def work(self) -> Callable[[int, int], None]:
        """Returns the worker function: takes the address of a thread pool and the worker's number.

        Raises:
            ArtefactError: the code has none.
        """
        try:
            if isinstance(self.owner, ctypes.CDLL):
                return _WORK_TYPE((WORK, self.owner))
            return _WORK_TYPE(self.owner.address(WORK))
        except (AttributeError, NativeCodeError) as error:
            raise ArtefactError(f"the code uses threads, but has no worker function: {error}") from error


def load(program: Program, symbols: Mapping[str, int] = MappingProxyType({})) -> NativeCode:
    """Loads a program's code into this process.

    Args:
        program: the program.
        symbols: addresses of functions that its objects call, besides those of the process, by name.

    Raises:
        ArtefactError: the code cannot be loaded here; the message says what is missing.
    """
    kind = _LOCKED_ENTRY_TYPE if program.is_short else _ENTRY_TYPE
    if program.library is not None:
        return _load_library(program.library, kind)
    return _load_objects(program, kind, symbols)


def _load_library(image: bytes, kind: Any) -> NativeCode:
    """Loads a shared library from memory if the system can, else from a file that is deleted after mapping."""
    try:
        library = _open_in_memory(image) if os.path.isdir(_OPEN_FILES) else _open_from_file(image)
        entry = kind((ENTRY, library))
    except (OSError, AttributeError) as error:
        raise ArtefactError(f"the artefact's shared library cannot be loaded: {error}") from error
    return NativeCode(entry, library)


def _open_in_memory(image: bytes) -> ctypes.CDLL:
    descriptor = os.memfd_create("stepwell", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(image)
        # The loader returns the same library for a known path. A number of slashes not used before makes the path new.
        count = next(_COUNT)
        path = f"/proc/self{'/' * (1 + count % 1000)}fd{'/' * (1 + count // 1000)}{descriptor}"
        return ctypes.CDLL(path, mode=_MODE)
    finally:
        os.close(descriptor)


def _open_from_file(image: bytes) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory(prefix="stepwell-") as folder:
        path = Path(folder) / "program.so"
        path.write_bytes(image)
        return ctypes.CDLL(str(path), mode=_MODE)


def _load_objects(program: Program, kind: Any, symbols: Mapping[str, int]) -> NativeCode:
    try:
        code = link_in_memory(program.objects, symbols)
        return NativeCode(kind(code.address(ENTRY)), code)
    except NativeCodeError as error:
        raise ArtefactError(f"the objects cannot be linked: {error}") from error


def link_in_memory(objects: Mapping[str, bytes], symbols: Mapping[str, int]) -> elf.ElfCode | orc.OrcCode:
    """Links objects into this process; uses LLVM, which needs more memory, only for unusual objects.

    Raises:
        NativeCodeError: an object is damaged, or a symbol is not defined.
    """
    if elf.is_supported():
        try:
            return elf.ElfCode(objects, symbols)
        except UnsupportedObjectError:
            pass  # LLVM's linker supports everything
    return orc.load_objects(objects, symbols)
