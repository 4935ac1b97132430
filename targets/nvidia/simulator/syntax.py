"""Syntax of PTX: modules, functions, variables, instructions and their operands."""

from __future__ import annotations

from dataclasses import dataclass, field

WIDTHS = {
    "pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "f32x2": 8, "b128": 16, "e4m3": 1, "e5m2": 1, "e4m3x2": 2, "e5m2x2": 2,
}  # fmt: skip
"""Sizes of the fundamental types in bytes."""


@dataclass(frozen=True)
class Register:
    """A register, a special register, or a predicate; `negated` is the `!` before a predicate."""

    name: str
    negated: bool = False


@dataclass(frozen=True)
class Immediate:
    """A number: an integer of any sign, or a float in decimal or as bits.

    Attributes:
        value: the number.
        bits: number of bits of a float in hexadecimal; 0 for other numbers.
    """

    value: int | float
    bits: int = 0


@dataclass(frozen=True)
class Symbol:
    """The address of a variable plus an offset in bytes, or a label, or a function."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Vector:
    """`{a, b, ...}`; or `a|b`, a destination with a second part."""

    items: tuple[PtxOperand, ...]


@dataclass(frozen=True)
class Address:
    """`[base+offset]`, and for tensors `[base, {coordinates}]`."""

    base: Register | Symbol | Immediate
    offset: int = 0
    coordinates: Vector | None = None


PtxOperand = Register | Immediate | Symbol | Vector | Address


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        opcode: first part of its name, such as "ld".
        modifiers: the other parts, in order.
        operands: the operands, destinations first.
        predicate: the guarding predicate, or None.
        line: line in the text.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[PtxOperand, ...]
    predicate: Register | None
    line: int

    @property
    def name(self) -> str:
        """The full name of the instruction as in the text."""
        return ".".join((self.opcode, *self.modifiers))

    def has(self, *modifiers: str) -> bool:
        """Returns whether it has all of the modifiers."""
        return all(modifier in self.modifiers for modifier in modifiers)


@dataclass(frozen=True)
class Variable:
    """A variable in memory, or a parameter.

    Attributes:
        name: name of the variable.
        space: "param", "shared", "global", "const" or "local".
        align: alignment in bytes.
        bytes: size in bytes; 0 for dynamic shared memory.
        data: initial contents, or None.
    """

    name: str
    space: str
    align: int
    bytes: int
    data: bytes | None = None


@dataclass
class PtxEntry:
    """An entry.

    Attributes:
        name: name of the entry.
        parameters: the parameters, in order.
        variables: variables declared in it.
        registers: type of each register declared in it.
        body: the instructions, in order.
        labels: for each label, the index in the body of the instruction after it.
        targets: labels of each jump table.
        directives: `reqntid`, `maxntid`, `reqnctapercluster`, ... with their numbers.
    """

    name: str
    parameters: list[Variable] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)
    body: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass
class PtxModule:
    """A PTX module.

    Attributes:
        version: version of the language, such as (8, 0).
        target: architecture, such as "sm_90a".
        variables: variables outside functions.
        entries: the kernels by name.
    """

    version: tuple[int, int] = (0, 0)
    target: str = ""
    variables: list[Variable] = field(default_factory=list)
    entries: dict[str, PtxEntry] = field(default_factory=dict)
