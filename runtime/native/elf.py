"""Loads native objects into this process: ELF for x86-64 and AArch64 on Linux, as the compiler emits it.

Supports fewer relocations than LLVM's JIT linker (`orc.py`) but saves its 35 MB of memory, most of what a small model
needs.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import sys
import weakref
from collections.abc import Mapping
from types import MappingProxyType

from ...support.errors import NativeCodeError
from .elf_image import ElfImage
from .elf_machines import AARCH64, X86_64

_MACHINES = {"x86_64": X86_64, "aarch64": AARCH64}
_FAILED = ctypes.c_void_p(-1).value


def is_supported() -> bool:
    """Returns whether this linker supports objects of this machine."""
    return sys.platform == "linux" and platform.machine() in _MACHINES


class ElfCode:
    """Linked, executable code. It lives as long as this object, so keep it while any of its addresses is in use."""

    def __init__(self, objects: Mapping[str, bytes], symbols: Mapping[str, int] = MappingProxyType({})) -> None:
        """Links objects (names are for messages only) with each other, with given symbols, and with the process.

        Args:
            objects: the objects.
            symbols: addresses of functions that no object defines, by name.

        Raises:
            UnsupportedObjectError: an object needs another linker.
            NativeCodeError: an object is damaged, or a symbol is defined twice or not at all.
        """
        image = ElfImage(objects, _MACHINES[platform.machine()])
        base = _allocate(image.size)
        self._free = weakref.finalize(self, _libc().munmap, base, image.size)
        self._free.atexit = False  # at exit another thread may still be running the code
        code = image.at(base, lambda name: symbols.get(name) or _process_address(name))
        ctypes.memmove(base, code, len(code))
        # On AArch64 this also makes the instruction cache see the code: Linux cleans the caches of a page that becomes
        # executable for the first time (`__sync_icache_dcache`).
        if _libc().mprotect(base, image.executable, mmap.PROT_READ | mmap.PROT_EXEC):
            raise NativeCodeError("the system does not allow making memory executable")
        self._addresses = {name: base + offset for name, offset in image.symbols.items()}

    def address(self, symbol: str) -> int:
        """Returns the address of a function.

        Raises:
            NativeCodeError: the symbol is not defined.
        """
        if symbol not in self._addresses:
            raise NativeCodeError(f"no object defines '{symbol}'")
        return self._addresses[symbol]


def _allocate(size: int) -> int:
    address = _libc().mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if address in (None, _FAILED):
        raise NativeCodeError("no memory for the code could be allocated")
    return address


def _process_address(name: str) -> int:
    """Returns the address of a symbol of the process."""
    try:
        return ctypes.cast(getattr(_libc(), name), ctypes.c_void_p).value or 0
    except AttributeError:
        raise NativeCodeError(f"'{name}' is defined neither in the objects nor in the process") from None


@functools.cache
def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return library
