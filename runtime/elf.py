"""Puts native objects into this process: ELF for x86-64 on Linux, as the compiler makes it.

It can less than LLVM's linker, which `orc` calls: but that takes up 35 MB of memory, most of what a small model needs.

    executable:  rodata, text, doors of what is not in the objects | writable: data, bss

What is elsewhere in the process may be too far away for a call: a door is the address, and a jump there.
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
# What a place holds: an address; how far it is to one; how far it is to a door's address.
_ABSOLUTE, _RELATIVE, _TO_ADDRESS = (1,), (2, 4), (9, 41, 42)
# jmp *2(%rip); nop; the address
_DOOR, _ADDRESS_IN_DOOR = struct.Struct("<6s2sQ"), 8
_JUMP, _NOP = bytes.fromhex("ff2502000000"), bytes.fromhex("6690")
_FAILED = ctypes.c_void_p(-1).value


class UnsupportedError(NativeCodeError):
    """An object has what only a whole linker knows."""


def is_supported() -> bool:
    """Whether objects for this machine are such as can be read here."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


class NativeCode:
    """Linked, executable code. It lives as long as this object, so keep it while any of its addresses is in use."""

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        """Links objects (names are for messages only) with each other and with the process.

        Raises:
            UnsupportedError: an object needs another linker.
            NativeCodeError: an object is damaged, two define the same symbol, or one is defined nowhere.
        """
        try:
            layout = _Layout([_read(name, data) for name, data in objects.items()])
            base = _allocate(layout.size)
            self._free = weakref.finalize(self, _libc().munmap, base, layout.size)
            self._free.atexit = False  # at exit another thread may still be inside the code
            image = layout.image(base)
        except (struct.error, LookupError, ValueError) as error:
            raise NativeCodeError(f"an object is damaged: {error}") from error
        ctypes.memmove(base, image, len(image))
        if _libc().mprotect(base, layout.executable, mmap.PROT_READ | mmap.PROT_EXEC):
            raise NativeCodeError("the system allows no new code")
        self._addresses = {name: base + offset for name, offset in layout.symbols.items()}

    def address(self, symbol: str) -> int:
        """The address of a function.

        Raises:
            NativeCodeError: the symbol is not defined.
        """
        if symbol not in self._addresses:
            raise NativeCodeError(f"no object defines '{symbol}'")
        return self._addresses[symbol]


@dataclass(frozen=True)
class _Section:
    """A part of an object that belongs in memory.

    Attributes:
        data: its contents.
        alignment: its address is a multiple of that.
        is_writable: whether code writes to it.
    """

    data: bytes
    alignment: int
    is_writable: bool


@dataclass(frozen=True)
class _Object:
    """An object file.

    Attributes:
        name: for messages.
        sections: by number.
        symbols: the name, whether other objects see it, the section and the value of each.
        relocations: where, which symbol, of which kind, and what to add: by the section that they are in.
    """

    name: str
    sections: dict[int, _Section] = field(default_factory=dict)
    symbols: list[tuple[str, bool, int, int]] = field(default_factory=list)
    relocations: dict[int, list[tuple[int, int, int, int]]] = field(default_factory=dict)


def _read(name: str, data: bytes) -> _Object:
    magic, kind, machine, *header = _HEADER.unpack_from(data)
    if not magic.startswith(_MAGIC) or kind != _RELOCATABLE or machine != _X86_64:
        raise NativeCodeError(f"{name}: this is no relocatable object for x86-64 in the ELF format")
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
            raise UnsupportedError(f"{name}: it has variables that each thread has for itself")
        elif flags & _IN_MEMORY and kind != _UNWIND:  # nothing is ever thrown through it
            found.sections[number] = _Section(contents, max(1, alignment), bool(flags & _WRITABLE))
    return found


def _symbols(table: bytes, names: bytes) -> Iterator[tuple[str, bool, int, int]]:
    for name, info, _, section, value, _ in _SYMBOL.iter_unpack(table):
        if section >= _FIRST_RESERVED and section != _NO_SECTION:
            raise UnsupportedError("an object has a symbol in no section")
        yield names[name : names.index(b"\0", name)].decode(), info >> 4 != _LOCAL, section, value


class _Layout:
    """Where everything goes, as offsets.

    Attributes:
        size: the bytes of all of it, a multiple of a page.
        executable: how many of them, from the first on, hold code and constants.
        symbols: what all objects see.
    """

    def __init__(self, objects: Sequence[_Object]) -> None:
        self._objects = objects
        self._starts: list[dict[int, int]] = [{} for _ in objects]
        end = self._place(0, is_writable=False)
        self._doors = {name: end + _DOOR.size * number for number, name in enumerate(_far(objects))}
        self.executable = _rounded(end + _DOOR.size * len(self._doors), mmap.PAGESIZE)
        self.size = max(_rounded(self._place(self.executable, is_writable=True), mmap.PAGESIZE), mmap.PAGESIZE)
        self.symbols: dict[str, int] = {}
        for item, starts in zip(objects, self._starts, strict=True):
            for name, is_seen, section, value in item.symbols:
                if not is_seen or section == _UNDEFINED:
                    continue
                if name in self.symbols:
                    raise NativeCodeError(f"{item.name}: the symbol '{name}' is defined twice")
                self.symbols[name] = starts[section] + value

    def image(self, base: int) -> bytes:
        """The bytes, for the address at which they will be."""
        image = bytearray(self.size)
        for name, place in self._doors.items():
            address = base + self.symbols[name] if name in self.symbols else _elsewhere(name)
            _DOOR.pack_into(image, place, _JUMP, _NOP, address)
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
        if kind in _TO_ADDRESS:
            target = self._doors[name] + _ADDRESS_IN_DOOR
        elif section != _UNDEFINED:
            target = starts[section] + value
        else:
            target = self.symbols[name] if name in self.symbols else self._doors[name]
        if kind in _ABSOLUTE:
            struct.pack_into("<Q", image, place, base + target + addend)
        else:
            struct.pack_into("<i", image, place, target + addend - place)

    def _place(self, end: int, is_writable: bool) -> int:
        for item, starts in zip(self._objects, self._starts, strict=True):
            for number, section in item.sections.items():
                if section.is_writable == is_writable:
                    starts[number] = _rounded(end, section.alignment)
                    end = starts[number] + len(section.data)
        return end


def _far(objects: Sequence[_Object]) -> Iterator[str]:
    """What is reached by a door: symbols that no object defines, and those that code wants to read the address of."""
    defined = {name for item in objects for name, _, section, _ in item.symbols if section != _UNDEFINED}
    found: dict[str, None] = {}
    for item in objects:
        for relocation in itertools.chain.from_iterable(item.relocations.values()):
            _, symbol, kind, _ = relocation
            name, is_seen, section, _ = item.symbols[symbol]
            if kind not in (*_ABSOLUTE, *_RELATIVE, *_TO_ADDRESS) or (kind in _TO_ADDRESS and not is_seen):
                raise UnsupportedError(f"{item.name}: it has a relocation of kind {kind}")
            if kind in _TO_ADDRESS or (section == _UNDEFINED and name not in defined):
                found[name] = None
    return iter(found)


def _allocate(size: int) -> int:
    address = _libc().mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if address in (None, _FAILED):
        raise NativeCodeError("there is no memory for the code")
    return address


def _elsewhere(name: str) -> int:
    """The address of a symbol of the process."""
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
