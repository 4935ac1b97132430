"""Links ELF objects, as the compiler emits them, to an image of memory.

    executable: rodata, text, PLT stubs for symbols not in the objects | writable: data, bss

A symbol outside the objects may be out of the range of relative calls. Its PLT stub holds a jump to it and its address.
"""

from __future__ import annotations

import itertools
import mmap
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...support.errors import NativeCodeError
from .elf_machines import ElfMachine

_HEADER, _SECTION = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQIIQQ")
_SYMBOL, _RELOCATION = struct.Struct("<IBBHQQ"), struct.Struct("<QQq")
_MAGIC, _RELOCATABLE = b"\x7fELF\x02\x01\x01", 1
# Values of elf.h: SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_X86_64_UNWIND; SHF_WRITE, SHF_ALLOC, SHF_TLS; SHN_UNDEF,
# SHN_LORESERVE, SHN_ABS, STB_LOCAL.
_SYMBOLS, _RELOCATIONS, _NO_BITS, _UNWIND = 2, 4, 8, 0x70000001
_WRITABLE, _IN_MEMORY, _THREAD_LOCAL = 0x1, 0x2, 0x400
_UNDEFINED, _FIRST_RESERVED, _NO_SECTION, _LOCAL = 0, 0xFF00, 0xFFF1, 0
_POINTER_BYTES, _STUB_ALIGNMENT = 8, 16
"""Size of the address after a stub, and of a stub with it."""


class UnsupportedObjectError(NativeCodeError):
    """An object needs a feature that only a full linker supports."""


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


def _read(name: str, data: bytes, machine: ElfMachine) -> _Object:
    magic, kind, number, *header = _HEADER.unpack_from(data)
    if not magic.startswith(_MAGIC) or kind != _RELOCATABLE or number != machine.number:
        raise NativeCodeError(f"{name}: not a relocatable ELF object for {machine.name}")
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


class ElfImage:
    """Objects arranged in memory, at offsets from a base address.

    Attributes:
        size: size of the whole in bytes, a multiple of the page size.
        executable: size in bytes of the first part, which holds code and constants.
        symbols: offsets of global symbols.
    """

    def __init__(self, objects: Mapping[str, bytes], machine: ElfMachine) -> None:
        """Reads objects (names are for messages only) for a processor architecture and arranges their sections.

        Raises:
            UnsupportedObjectError: an object needs another linker.
            NativeCodeError: an object is damaged, or a symbol is defined twice.
        """
        self._machine = machine
        try:
            self._arrange([_read(name, data, machine) for name, data in objects.items()])
        except (struct.error, LookupError, ValueError) as error:
            raise NativeCodeError(f"an object is damaged: {error}") from error

    def at(self, base: int, address_of: Callable[[str], int]) -> bytes:
        """Returns the bytes, relocated for the address `base`.

        Args:
            base: address of the first byte, a multiple of the page size.
            address_of: returns the address of a symbol that the objects use but do not define.

        Raises:
            NativeCodeError: an object is damaged, or its parts are too far from each other.
        """
        image = bytearray(self.size)
        for name, offset in self._stubs.items():
            address = base + self.symbols[name] if name in self.symbols else address_of(name)
            code = self._machine.stub + address.to_bytes(_POINTER_BYTES, "little")
            image[offset : offset + len(code)] = code
        try:
            for item, starts in zip(self._objects, self._starts, strict=True):
                for number, start in starts.items():
                    data = item.sections[number].data
                    image[start : start + len(data)] = data
                for number, start in starts.items():
                    for place, symbol, kind, addend in item.relocations.get(number, ()):
                        self._relocate(image, base, start + place, kind, item.symbols[symbol], starts, addend)
        except (struct.error, LookupError, ValueError) as error:
            raise NativeCodeError(f"an object is damaged: {error}") from error
        return bytes(image)

    def _arrange(self, objects: Sequence[_Object]) -> None:
        self._objects = objects
        self._starts: list[dict[int, int]] = [{} for _ in objects]
        end = _rounded(self._assign_offsets(0, is_writable=False), _STUB_ALIGNMENT)
        size = len(self._machine.stub) + _POINTER_BYTES
        stubs = dict.fromkeys(_symbols_with_stubs(objects, self._machine))
        self._stubs = {name: end + size * number for number, name in enumerate(stubs)}
        self.executable = _rounded(end + size * len(self._stubs), mmap.PAGESIZE)
        self.size = max(_rounded(self._assign_offsets(self.executable, is_writable=True), mmap.PAGESIZE), mmap.PAGESIZE)
        self.symbols: dict[str, int] = {}
        for item, starts in zip(objects, self._starts, strict=True):
            for name, is_global, section, value in item.symbols:
                if not is_global or section == _UNDEFINED:
                    continue
                if name in self.symbols:
                    raise NativeCodeError(f"{item.name}: the symbol '{name}' is defined twice")
                self.symbols[name] = starts[section] + value

    def _relocate(
        self,
        image: bytearray,
        base: int,
        offset: int,
        kind: int,
        symbol: tuple[str, bool, int, int],
        starts: Mapping[int, int],
        addend: int,
    ) -> None:
        name, _, section, value = symbol
        if kind in self._machine.to_pointer:
            write = self._machine.to_pointer[kind]
            target = self._stubs[name] + len(self._machine.stub)
        else:
            write = self._machine.direct[kind]
            if section != _UNDEFINED:
                target = starts[section] + value
            else:
                target = self.symbols[name] if name in self.symbols else self._stubs[name]
        write(image, offset, base + offset, base + target + addend)

    def _assign_offsets(self, end: int, is_writable: bool) -> int:
        for item, starts in zip(self._objects, self._starts, strict=True):
            for number, section in item.sections.items():
                if section.is_writable == is_writable:
                    starts[number] = _rounded(end, section.alignment)
                    end = starts[number] + len(section.data)
        return end


def _symbols_with_stubs(objects: Sequence[_Object], machine: ElfMachine) -> Iterator[str]:
    """Yields the symbols that need a stub: those that no object defines, and those accessed through a GOT entry."""
    defined = {name for item in objects for name, _, section, _ in item.symbols if section != _UNDEFINED}
    for item in objects:
        for relocation in itertools.chain.from_iterable(item.relocations.values()):
            _, symbol, kind, _ = relocation
            name, is_global, section, _ = item.symbols[symbol]
            is_pointer = kind in machine.to_pointer
            if (kind not in machine.direct and not is_pointer) or (is_pointer and not is_global):
                raise UnsupportedObjectError(f"{item.name}: relocations of type {kind} are not supported")
            if is_pointer or (section == _UNDEFINED and name not in defined):
                yield name


def _rounded(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
