"""Layout of the matrices of `mma` and `wgmma` in the registers of a warp (PTX ISA, "Matrix fragments").

Lane l has index t = l % 4 in group g = l / 4. A 32-bit register holds E elements that are neighbours along the inner
dimension k. All shapes then follow one rule:

- A, 16 x k: register r holds row g + 8 (r % 2), columns from t E + 4 E (r / 2) on;
- B, k x 8: register r holds rows from t E + 4 E r on, column g;
- C and D, 16 x 8: element c is at row g + 8 (c / 2), column 2 t + c % 2; in D, 16 x n, c / 4 counts 8 columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .kinds import FLOATS8, Array, widen_bfloat

_LANES = (8, 4)
"""Groups of a warp, and lanes of a group."""


@dataclass(frozen=True)
class Element:
    """Element type of a factor.

    Attributes:
        kind: name of the type in PTX.
        bits: bits per element.
        exact: whether it is an integer type.
    """

    kind: str
    bits: int
    exact: bool = False

    @property
    def per_register(self) -> int:
        """Number of elements in a register of 32 bits."""
        return 32 // self.bits

    def decoded(self, raw: Array) -> Array:
        """Converts unsigned integers of the elements' width to values for computation."""
        if self.kind in FLOATS8:
            return FLOATS8[self.kind][raw]
        if self.kind == "f16":
            return raw.view(np.float16).astype(np.float32)
        if self.kind == "bf16":
            return widen_bfloat(raw)
        if self.kind == "tf32":
            # The tensor core reads the upper 19 bits of an arbitrary float32.
            return (raw & np.uint32(0xFFFFE000)).view(np.float32)
        return raw.view(np.int8 if self.kind == "s8" else np.uint8).astype(np.float64)


ELEMENTS = {
    "f16": Element("f16", 16),
    "bf16": Element("bf16", 16),
    "tf32": Element("tf32", 32),
    "e4m3": Element("e4m3", 8),
    "e5m2": Element("e5m2", 8),
    "s8": Element("s8", 8, exact=True),
    "u8": Element("u8", 8, exact=True),
}
RAW = {8: np.dtype(np.uint8), 16: np.dtype(np.uint16), 32: np.dtype(np.uint32)}


def left_factor(registers: Array, element: Element) -> Array:
    """Returns A, from the registers of each lane.

    Args:
        registers: uint32, warps x 32 x registers.
        element: type of the elements.

    Returns:
        Values, warps x 16 x k.
    """
    parts = _elements(registers, element)
    warps, _, _, count, per = parts.shape
    halves = parts.reshape(warps, *_LANES, count // 2, 2, per)
    return halves.transpose(0, 4, 1, 3, 2, 5).reshape(warps, 16, -1)


def right_factor(registers: Array, element: Element) -> Array:
    """Returns B, warps x k x 8, from the registers of each lane, warps x 32 x registers."""
    parts = _elements(registers, element)
    return parts.transpose(0, 3, 2, 4, 1).reshape(len(registers), -1, 8)


def _elements(registers: Array, element: Element) -> Array:
    raw = np.ascontiguousarray(registers).view(RAW[element.bits])
    values = element.decoded(raw)
    return values.reshape(len(registers), *_LANES, registers.shape[-1], element.per_register)


def accumulator(values: Array) -> Array:
    """Returns C, warps x 16 x n, from the elements of each lane, warps x 32 x (n / 2)."""
    warps, _, count = values.shape
    parts = values.reshape(warps, *_LANES, count // 4, 2, 2)
    return parts.transpose(0, 4, 1, 3, 2, 5).reshape(warps, 16, -1)


def accumulator_elements(matrices: Array) -> Array:
    """Returns each lane's elements of D: the inverse of `accumulator`."""
    warps, _, columns = matrices.shape
    parts = matrices.reshape(warps, 2, 8, columns // 8, 4, 2)
    return parts.transpose(0, 2, 4, 3, 1, 5).reshape(warps, 32, columns // 2)


def square(registers: Array) -> Array:
    """Returns the 8 x 8 matrices of `ldmatrix`, of 16-bit elements, from one register per lane (warps x 32)."""
    return np.ascontiguousarray(registers).view(np.uint16).reshape(len(registers), 8, 8)


def square_registers(matrices: Array) -> Array:
    """Returns the register of each lane: the inverse of `square`."""
    return np.ascontiguousarray(matrices).reshape(len(matrices), 64).view(np.uint32)
