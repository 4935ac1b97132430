"""The parts of ELF linking that depend on the processor: relocations and stubs for symbols outside the objects."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...support.errors import NativeCodeError

Relocate = Callable[[bytearray, int, int, int], None]
"""Writes a relocation: takes the image, the offset of the field, its address, and the address it refers to."""


@dataclass(frozen=True)
class ElfMachine:
    """A processor architecture.

    Attributes:
        name: its name in messages.
        number: its number in headers of ELF files.
        direct: relocations that store the address of a symbol, by type.
        to_pointer: relocations that store the address of a pointer to a symbol, by type.
        stub: code that jumps to the address in the 8 bytes that follow it. The relocations to pointers take these
            bytes as the pointer.
    """

    name: str
    number: int
    direct: Mapping[int, Relocate]
    to_pointer: Mapping[int, Relocate]
    stub: bytes


def _absolute(image: bytearray, offset: int, address: int, target: int) -> None:
    struct.pack_into("<Q", image, offset, target)


def _relative(image: bytearray, offset: int, address: int, target: int) -> None:
    struct.pack_into("<i", image, offset, target - address)


def _page(image: bytearray, offset: int, address: int, target: int) -> None:
    """Writes the distance in pages of 4 KiB into `adrp`."""
    pages = (target >> 12) - (address >> 12)
    _check_range(pages, 21)
    _insert(image, offset, (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5)


def _in_page(scale: int, image: bytearray, offset: int, address: int, target: int) -> None:
    """Writes the offset within a page, in elements of `1 << scale` bytes, into an `add`, a load or a store."""
    if target & ((1 << scale) - 1):
        raise NativeCodeError(f"an access of {1 << scale} bytes refers to an address that is not a multiple of them")
    _insert(image, offset, (target & 0xFFF) >> scale << 10)


def _branch(image: bytearray, offset: int, address: int, target: int) -> None:
    """Writes the distance in instructions into `b` or `bl`."""
    distance = target - address >> 2
    _check_range(distance, 26)
    _insert(image, offset, distance & 0x3FFFFFF)


def _insert(image: bytearray, offset: int, bits: int) -> None:
    (instruction,) = struct.unpack_from("<I", image, offset)
    struct.pack_into("<I", image, offset, instruction | bits)


def _check_range(value: int, bits: int) -> None:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise NativeCodeError("the objects are so large that their parts cannot address each other")


# Names of the types are in LLVM's llvm/BinaryFormat/ELFRelocs/x86_64.def and AArch64.def.
X86_64 = ElfMachine(
    name="x86-64",
    number=62,
    direct={1: _absolute, 2: _relative, 4: _relative},  # 64, PC32, PLT32
    to_pointer=dict.fromkeys((9, 41, 42), _relative),  # GOTPCREL, GOTPCRELX, REX_GOTPCRELX
    stub=bytes.fromhex("ff25020000006690"),  # jmp *2(%rip); nop
)
AARCH64 = ElfMachine(
    name="AArch64",
    number=183,
    direct={
        257: _absolute,  # ABS64
        261: _relative,  # PREL32
        275: _page,  # ADR_PREL_PG_HI21
        277: functools.partial(_in_page, 0),  # ADD_ABS_LO12_NC
        278: functools.partial(_in_page, 0),  # LDST8_ABS_LO12_NC
        282: _branch,  # JUMP26
        283: _branch,  # CALL26
        284: functools.partial(_in_page, 1),  # LDST16_ABS_LO12_NC
        285: functools.partial(_in_page, 2),  # LDST32_ABS_LO12_NC
        286: functools.partial(_in_page, 3),  # LDST64_ABS_LO12_NC
        299: functools.partial(_in_page, 4),  # LDST128_ABS_LO12_NC
    },
    to_pointer={311: _page, 312: functools.partial(_in_page, 3)},  # ADR_GOT_PAGE, LD64_GOT_LO12_NC
    stub=bytes.fromhex("5000005800021fd6"),  # ldr x16, 8; br x16
)
