"""What PTX text says: modules, functions, variables, instructions and their operands."""

from __future__ import annotations

from dataclasses import dataclass, field

WIDTHS = {
    "pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "f32x2": 8, "b128": 16, "e4m3": 1, "e5m2": 1, "e4m3x2": 2, "e5m2x2": 2,
}  # fmt: skip
"""Bytes of the fundamental types."""


@dataclass(frozen=True)
class Register:
    """A register, a special register, or a predicate; `negated` is the `!` before a predicate."""

    name: str
    negated: bool = False


@dataclass(frozen=True)
class Immediate:
    """A number: an integer of any sign, or a float given as its bits or in decimals.

    Attributes:
        value: the number.
        bits: of a float given in hexadecimal, how many bits it has; else 0.
    """

    value: int | float
    bits: int = 0


@dataclass(frozen=True)
class Symbol:
    """The address of a variable, or a label, or a function; plus bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Vector:
    """`{a, b, ...}`; or `a|b`, of a destination with a second part."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Address:
    """`[base+offset]`, and for tensors `[base, {coordinates}]`."""

    base: Register | Symbol | Immediate
    offset: int = 0
    coordinates: Vector | None = None


Operand = Register | Immediate | Symbol | Vector | Address


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        opcode: its first part, "ld" for one.
        modifiers: the parts behind, in order.
        operands: destinations first.
        predicate: what guards it, or None.
        line: where it stands in the text.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    predicate: Register | None
    line: int

    @property
    def name(self) -> str:
        """The whole opcode as it stands in the text."""
        return ".".join((self.opcode, *self.modifiers))

    def has(self, *modifiers: str) -> bool:
        """Whether it has all of the modifiers."""
        return all(modifier in self.modifiers for modifier in modifiers)


@dataclass(frozen=True)
class Variable:
    """A variable in memory, or a parameter.

    Attributes:
        name: what it is called.
        space: "param", "shared", "global", "const" or "local".
        align: the alignment in bytes.
        bytes: the size; 0 for the shared memory whose size a launch decides.
        data: what it holds at first; None for nothing.
    """

    name: str
    space: str
    align: int
    bytes: int
    data: bytes | None = None


@dataclass
class Function:
    """An entry.

    Attributes:
        name: what it is called.
        parameters: what it takes, in order.
        variables: those declared in it.
        registers: the type of each register declared in it.
        body: its instructions, in order.
        labels: for each label the place in the body before which it stands.
        targets: the labels of each jump table.
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
class Module:
    """A PTX text.

    Attributes:
        version: of the language, (8, 0) for one.
        target: the architecture, "sm_90a" for one.
        variables: those outside functions.
        entries: the kernels by name.
    """

    version: tuple[int, int] = (0, 0)
    target: str = ""
    variables: list[Variable] = field(default_factory=list)
    entries: dict[str, Function] = field(default_factory=dict)
