"""Loads native objects into this process: ELF for x86-64 on Linux, as the compiler emits it.

Supports fewer relocations than LLVM's JIT linker (`orc.py`) but saves its 35 MB of memory, most of what a small model
needs. Memory layout:

    executable: rodata, text, PLT stubs for symbols not in the objects | writable: data, bss

A symbol of the process may be out of the range of relative calls. Its PLT stub holds its address and a jump to it.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
import platform
import struct
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .errors import NativeCodeError

_HEADER, _SECTION = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQIIQQ")
_SYMBOL, _RELOCATION = struct.Struct("<IBBHQQ"), struct.Struct("<QQq")
_MAGIC, _RELOCATABLE, _X86_64 = b"\x7fELF\x02\x01\x01", 1, 62
_SYMBOLS, _RELOCATIONS, _NO_BITS, _UNWIND = 2, 4, 8, 0x70000001
_WRITABLE, _IN_MEMORY, _THREAD_LOCAL = 0x1, 0x2, 0x400
_UNDEFINED, _FIRST_RESERVED, _NO_SECTION, _LOCAL = 0, 0xFF00, 0xFFF1, 0
# Relocation types by what they store: an address (64); a relative one (PC32, PLT32); that of a pointer (GOTPCREL...).
_ABSOLUTE, _RELATIVE, _TO_POINTER = (1,), (2, 4), (9, 41, 42)
# A PLT stub: jmp *2(%rip); nop; the address
_STUB, _POINTER_IN_STUB = struct.Struct("<6s2sQ"), 8
_JUMP, _NOP = bytes.fromhex("ff2502000000"), bytes.fromhex("6690")
_FAILED = ctypes.c_void_p(-1).value


class UnsupportedObjectError(NativeCodeError):
    """An object needs a feature that only a full linker supports."""


def is_supported() -> bool:
    """Returns whether this linker supports objects of this machine."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


class ElfCode:
    """Linked, executable code. It lives as long as this object, so keep it while any of its addresses is in use."""

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        """Links objects (names are for messages only) with each other and with the process.

        Raises:
            UnsupportedObjectError: an object needs another linker.
            NativeCodeError: an object is damaged, or a symbol is defined twice or not at all.
        """
        try:
            layout = _Layout([_read(name, data) for name, data in objects.items()])
            base = _allocate(layout.size)
            self._free = weakref.finalize(self, _libc().munmap, base, layout.size)
            self._free.atexit = False  # at exit another thread may still be running the code
            image = layout.image(base)
        except (struct.error, LookupError, ValueError) as error:
            raise NativeCodeError(f"an object is damaged: {error}") from error
        ctypes.memmove(base, image, len(image))
        if _libc().mprotect(base, layout.executable, mmap.PROT_READ | mmap.PROT_EXEC):
            raise NativeCodeError("the system does not allow making memory executable")
        self._addresses = {name: base + offset for name, offset in layout.symbols.items()}

    def address(self, symbol: str) -> int:
        """Returns the address of a function.

        Raises:
            NativeCodeError: the symbol is not defined.
        """
        if symbol not in self._addresses:
            raise NativeCodeError(f"no object defines '{symbol}'")
        return self._addresses[symbol]


@dataclass(frozen=True)
class _Section:
    """A section that is loaded into memory.

    Attributes:
        data: its contents.
        alignment: alignment of its address in bytes.
        is_writable: whether code writes to it.
    """

    data: bytes
    alignment: int
    is_writable: bool


@dataclass(frozen=True)
class _Object:
    """An object file.

    Attributes:
        name: name for messages.
        sections: sections by number.
        symbols: for each symbol its name, whether it is global, its section and its value.
        relocations: offset, symbol number, type and addend of each relocation, by the number of their section.
    """

    name: str
    sections: dict[int, _Section] = field(default_factory=dict)
    symbols: list[tuple[str, bool, int, int]] = field(default_factory=list)
    relocations: dict[int, list[tuple[int, int, int, int]]] = field(default_factory=dict)


def _read(name: str, data: bytes) -> _Object:
    magic, kind, machine, *header = _HEADER.unpack_from(data)
    if not magic.startswith(_MAGIC) or kind != _RELOCATABLE or machine != _X86_64:
        raise NativeCodeError(f"{name}: not a relocatable ELF object for x86-64")
    table, count = header[3], header[9]
    entries = [_SECTION.unpack_from(data, table + _SECTION.size * number) for number in range(count)]
    found = _Object(name)
    for number, (_, kind, flags, _, offset, size, link, target, alignment, _) in enumerate(entries):
        contents = bytes(size) if kind == _NO_BITS else data[offset : offset + size]
        if len(contents) != size:
            raise ValueError(f"section {number} of {name} is cut off")
        if kind == _SYMBOLS:
            found.symbols.extend(_symbols(contents, data[entries[link][4] :]))
        elif kind == _RELOCATIONS:
            found.relocations[target] = [
                (place, info >> 32, info & 0xFFFFFFFF, addend)
                for place, info, addend in _RELOCATION.iter_unpack(contents)
            ]
        elif flags & _THREAD_LOCAL:
            raise UnsupportedObjectError(f"{name}: thread-local variables are not supported")
        elif flags & _IN_MEMORY and kind != _UNWIND:  # exceptions never unwind through the code
            found.sections[number] = _Section(contents, max(1, alignment), bool(flags & _WRITABLE))
    return found


def _symbols(table: bytes, names: bytes) -> Iterator[tuple[str, bool, int, int]]:
    for name, info, _, section, value, _ in _SYMBOL.iter_unpack(table):
        if section >= _FIRST_RESERVED and section != _NO_SECTION:
            raise UnsupportedObjectError("an object has a symbol without a section")
        yield names[name : names.index(b"\0", name)].decode(), info >> 4 != _LOCAL, section, value


class _Layout:
    """The memory layout, as offsets.

    Attributes:
        size: size of the whole in bytes, a multiple of the page size.
        executable: size in bytes of the first part, which holds code and constants.
        symbols: offsets of global symbols.
    """

    def __init__(self, objects: Sequence[_Object]) -> None:
        self._objects = objects
        self._starts: list[dict[int, int]] = [{} for _ in objects]
        end = self._assign_offsets(0, is_writable=False)
        self._stubs = {name: end + _STUB.size * number for number, name in enumerate(_symbols_with_stubs(objects))}
        self.executable = _rounded(end + _STUB.size * len(self._stubs), mmap.PAGESIZE)
        self.size = max(_rounded(self._assign_offsets(self.executable, is_writable=True), mmap.PAGESIZE), mmap.PAGESIZE)
        self.symbols: dict[str, int] = {}
        for item, starts in zip(objects, self._starts, strict=True):
            for name, is_global, section, value in item.symbols:
                if not is_global or section == _UNDEFINED:
                    continue
                if name in self.symbols:
                    raise NativeCodeError(f"{item.name}: the symbol '{name}' is defined twice")
                self.symbols[name] = starts[section] + value

    def image(self, base: int) -> bytes:
        """Returns the bytes, relocated for the address `base`."""
        image = bytearray(self.size)
        for name, place in self._stubs.items():
            address = base + self.symbols[name] if name in self.symbols else _process_address(name)
            _STUB.pack_into(image, place, _JUMP, _NOP, address)
        for item, starts in zip(self._objects, self._starts, strict=True):
            for number, start in starts.items():
                data = item.sections[number].data
                image[start : start + len(data)] = data
            for number, start in starts.items():
                for place, symbol, kind, addend in item.relocations.get(number, ()):
                    self._relocate(image, base, start + place, kind, item.symbols[symbol], starts, addend)
        return bytes(image)

    def _relocate(
        self,
        image: bytearray,
        base: int,
        place: int,
        kind: int,
        symbol: tuple[str, bool, int, int],
        starts: Mapping[int, int],
        addend: int,
    ) -> None:
        name, _, section, value = symbol
        if kind in _TO_POINTER:
            target = self._stubs[name] + _POINTER_IN_STUB
        elif section != _UNDEFINED:
            target = starts[section] + value
        else:
            target = self.symbols[name] if name in self.symbols else self._stubs[name]
        if kind in _ABSOLUTE:
            struct.pack_into("<Q", image, place, base + target + addend)
        else:
            struct.pack_into("<i", image, place, target + addend - place)

    def _assign_offsets(self, end: int, is_writable: bool) -> int:
        for item, starts in zip(self._objects, self._starts, strict=True):
            for number, section in item.sections.items():
                if section.is_writable == is_writable:
                    starts[number] = _rounded(end, section.alignment)
                    end = starts[number] + len(section.data)
        return end


def _symbols_with_stubs(objects: Sequence[_Object]) -> Iterator[str]:
    """Yields the symbols that need a stub: those that no object defines, and those accessed through a GOT entry."""
    defined = {name for item in objects for name, _, section, _ in item.symbols if section != _UNDEFINED}
    found: dict[str, None] = {}
    for item in objects:
        for relocation in itertools.chain.from_iterable(item.relocations.values()):
            _, symbol, kind, _ = relocation
            name, is_global, section, _ = item.symbols[symbol]
            if kind not in (*_ABSOLUTE, *_RELATIVE, *_TO_POINTER) or (kind in _TO_POINTER and not is_global):
                raise UnsupportedObjectError(f"{item.name}: relocations of type {kind} are not supported")
            if kind in _TO_POINTER or (section == _UNDEFINED and name not in defined):
                found[name] = None
    return iter(found)


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


def _rounded(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
