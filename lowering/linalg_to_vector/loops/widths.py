"""Number of lanes that a loop nest works on at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from ....machines.machine import Machine
from .generic import Generic

_COSTLY = frozenset(
    f"math.{name}"
    for name in (
        *("exp", "expm1", "log", "log1p", "powf", "erf", "sin", "cos", "tan", "asin", "acos", "atan"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    )
)


@dataclass(frozen=True)
class Widths:
    """Vector width of a kernel's loops.

    Attributes:
        machine: the machine.
        vector_bytes: size of the registers that the schedule chose, in bytes.
        unroll: number of registers that one vector spans; their independent operations hide each other's latency.
    """

    machine: Machine
    vector_bytes: int
    unroll: int = 4

    def of(self, generics: Sequence[Generic], size: int) -> tuple[int, int]:
        """Returns the lanes per step of a loop of `size` iterations, and the lanes that fill one register."""
        native = max(4, self.vector_bytes // max(element_bytes(generic) for generic in generics))
        unroll = min(self.unroll, 2) if any(map(is_costly, generics)) else self.unroll
        width = native * unroll
        while width > native and width >= 2 * size:
            width //= 2
        return width, native


def is_costly(generic: Generic) -> bool:
    """Returns whether the body calls functions that become long polynomials."""
    return any(op.name in _COSTLY for op in generic.block.operations)


def element_bytes(generic: Generic) -> int:
    """Returns the size in bytes of the largest element that a body works on."""
    kinds = [argument.type for argument in generic.block.arguments]
    kinds += [result.type for op in generic.block.operations for result in op.results]
    return max((bits_of(kind) + 7) // 8 for kind in kinds)


def bits_of(kind: ir.Type) -> int:
    """Returns the width of a scalar type in bits; an index counts as 8 bits, as it mostly stays scalar."""
    return kind.width if isinstance(kind, ir.IntegerType | ir.FloatType) else 8


def pieces(size: int, width: int, native: int) -> list[tuple[int, int, int]]:
    """Splits a tail of `size` < `width` elements into vectors (offset, lanes, valid lanes).

    The number of lanes is a power of two; at most one vector is masked.
    """
    found: list[tuple[int, int, int]] = []
    offset = 0
    while size - offset >= native:
        lanes = 1 << ((size - offset).bit_length() - 1)
        found.append((offset, lanes, lanes))
        offset += lanes
    rest = size - offset
    if rest:
        found.append((offset, 1 << (rest - 1).bit_length(), rest))
    return found
