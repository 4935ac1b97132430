"""Functions of MLIR's and LLVM's shared libraries that the bindings do not expose.

Most are C++ functions, called by their mangled names, with only pointers, lengths and flags as arguments. The wheel is
pinned, so the symbols exist.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from ..infra.bindings import ir

_REGISTER = (
    "_ZN4mlir27registerAsmPrinterCLOptionsEv",
    "_ZN4mlir28registerMLIRContextCLOptionsEv",
)
_PARSE = "_ZN4llvm2cl23ParseCommandLineOptionsEiPKPKcNS_9StringRefEPNS_11raw_ostreamEPNS_3vfs10FileSystemES2_b"
_DUMP = "_ZN4mlir13OpPassManager4dumpEv"
_REPRODUCE = "_ZN4mlir11PassManager31enableCrashReproducerGenerationEN4llvm9StringRefEb"
_LOCATION = b"mlir.ir.Location._CAPIPtr"
_SEVERITIES = (
    ir.DiagnosticSeverity.ERROR,
    ir.DiagnosticSeverity.WARNING,
    ir.DiagnosticSeverity.NOTE,
    ir.DiagnosticSeverity.REMARK,
)
_OPTION = re.compile(r"^ {2,4}--?([\w.-]+)(=<[^>]*>| <[^>]*>)?(?: +- |$)", re.MULTILINE)
_LISTING = f"from {__name__} import parse_flags; parse_flags('', ['--help-list-hidden'])"


class _Handle(ctypes.Structure):
    """A struct of MLIR's C API that holds one pointer."""

    _fields_ = (("pointer", ctypes.c_void_p),)


class _Result(ctypes.Structure):
    """`MlirLogicalResult`: 0 is failure."""

    _fields_ = (("value", ctypes.c_int8),)


_HANDLER = ctypes.CFUNCTYPE(ctypes.c_int8, ctypes.c_void_p, ctypes.c_void_p)
_WRITER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


@cache
def libraries() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """MLIR's library and LLVM's library; already loaded if the bindings are."""
    from mlir import _mlir_libs

    folder = os.path.dirname(_mlir_libs.__file__)
    llvm = os.path.join(folder, "..", "..", "llvm", "lib", "libLLVM.so")
    return ctypes.CDLL(os.path.join(folder, "libMLIRPythonCAPI.so")), ctypes.CDLL(llvm)


def parse_flags(program: str, arguments: Sequence[str]) -> None:
    """Parses command-line flags with LLVM's parser, including those on contexts and IR printing.

    Call this once, before any context is made. An invalid flag ends the process with a message and exit code 1.
    """
    mlir, llvm = libraries()
    for name in _REGISTER:
        getattr(mlir, name)()
    words = [text.encode(errors="surrogateescape") for text in (program, *arguments)]
    array = (ctypes.c_char_p * len(words))(*words)
    nothing = ctypes.c_void_p(None)
    getattr(llvm, _PARSE)(
        ctypes.c_int(len(words)),
        array,
        *(nothing, ctypes.c_size_t(0)),
        nothing,
        nothing,
        nothing,
        ctypes.c_bool(False),
    )


@cache
def llvm_flags() -> dict[str, bool]:
    """The flags of LLVM's libraries by name, and whether each needs a value. A child process prints the list."""
    done = subprocess.run([sys.executable, "-c", _LISTING], capture_output=True, text=True, check=True)
    return {found[1]: found[2] is not None for found in _OPTION.finditer(done.stdout)}


class Diagnostic(NamedTuple):
    """A diagnostic with the same interface as the bindings' own class.

    Attributes:
        severity: its severity.
        message: its text.
        location: its location.
        notes: diagnostics attached to it.
    """

    severity: ir.DiagnosticSeverity
    message: str
    location: ir.Location
    notes: tuple[Diagnostic, ...]


def run(manager: Any, op: ir.Operation, handler: Callable[[Any], bool]) -> bool:
    """Runs a pass manager on an op and returns whether it succeeded.

    Python's lock is released meanwhile, and the diagnostics of all threads go to `handler`. The bindings' own method
    keeps the lock, and a worker thread that emits a diagnostic then fails.
    """
    mlir = libraries()[0]

    def handle(diagnostic: int, _: object) -> int:
        return 1 if handler(_read(mlir, _Handle(diagnostic))) else 0

    callback = _HANDLER(handle)
    context = _Handle(_pointer(op.context))
    attached = mlir.mlirContextAttachDiagnosticHandler
    attached.restype = ctypes.c_uint64
    number = ctypes.c_uint64(attached(context, callback, ctypes.c_void_p(None), ctypes.c_void_p(None)))
    function = mlir.mlirPassManagerRunOnOp
    function.restype = _Result
    try:
        return bool(function(_Handle(_pointer(manager)), _Handle(_pointer(op))).value)
    finally:
        mlir.mlirContextDetachDiagnosticHandler(context, number)


def _read(mlir: ctypes.CDLL, diagnostic: _Handle) -> Diagnostic:
    pieces: list[bytes] = []
    keep = _WRITER(lambda text, length, _: pieces.append(ctypes.string_at(text, length)))
    mlir.mlirDiagnosticPrint(diagnostic, keep, ctypes.c_void_p(None))
    mlir.mlirDiagnosticGetLocation.restype = mlir.mlirDiagnosticGetNote.restype = _Handle
    mlir.mlirDiagnosticGetNumNotes.restype = ctypes.c_ssize_t
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    place = capsule(mlir.mlirDiagnosticGetLocation(diagnostic).pointer, _LOCATION, None)
    count = range(mlir.mlirDiagnosticGetNumNotes(diagnostic))
    notes = (_read(mlir, mlir.mlirDiagnosticGetNote(diagnostic, ctypes.c_ssize_t(number))) for number in count)
    severity = _SEVERITIES[mlir.mlirDiagnosticGetSeverity(diagnostic)]
    text = b"".join(pieces).decode(errors="replace")
    return Diagnostic(severity, text, ir.Location._CAPICreate(place), tuple(notes))  # pyright: ignore


def dump(manager: Any) -> None:
    """Prints a pass manager's passes with all their options to the standard error stream."""
    getattr(libraries()[0], _DUMP)(_pointer(manager))


def enable_reproducer(manager: Any, path: str, is_local: bool) -> None:
    """Makes a pass manager write a reproducer when a pass fails or crashes; a local one contains only that pass."""
    text = path.encode(errors="surrogateescape")
    getattr(libraries()[0], _REPRODUCE)(
        _pointer(manager), ctypes.c_char_p(text), ctypes.c_size_t(len(text)), ctypes.c_bool(is_local)
    )


def _pointer(wrapped: Any) -> ctypes.c_void_p:
    """The C++ object behind an object of the bindings."""
    capsule = wrapped._CAPIPtr
    name, address = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.c_void_p(address(capsule, name(capsule)))
