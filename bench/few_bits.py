"""Products with weights of few bits in blocks (com.microsoft MatMulNBits)."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import helper

from ..dialects.stepwell.blocks import numbers_of
from .kernel import Function, Kernel


@dataclass(frozen=True, kw_only=True)
class FewBits(Kernel):
    """A product with a weight of few bits; torch and numpy multiply with the weight as floats.

    Attributes:
        bits: bits of an element of the weight.
        block: elements with one scale.
    """

    bits: int
    block: int

    @property
    def bytes(self) -> float:
        """Minimum number of bytes that a call reads and writes."""
        rows, depth = self.inputs["x"]
        columns = self.output[-1]
        return 4.0 * rows * (depth + columns) + columns * (depth * self.bits / 8 + 4 * depth / self.block)

    def stored(self) -> dict[str, np.ndarray]:
        """Returns numbers and scales."""
        random = np.random.default_rng(zlib.crc32(self.name.encode()))
        depth, columns = self.inputs["x"][-1], self.output[-1]
        numbers = random.integers(0, 256, (columns, depth // self.block, self.block * self.bits // 8), np.uint8)
        # A number is about 2^(bits - 2) away from zero: sums stay near one.
        scale = np.float32(4 / ((1 << self.bits) * math.sqrt(depth)))
        scales = scale * (0.5 + random.random(columns * depth // self.block, np.float32))
        return {"w": numbers, "s": scales}

    def weights(self) -> list[np.ndarray]:
        """Returns the weight as floats."""
        stored = self.stored()
        numbers = numbers_of(stored["w"], self.bits).astype(np.float32) - (1 << (self.bits - 1))
        scaled = numbers * stored["s"].reshape(*numbers.shape[:2], 1)
        return [np.ascontiguousarray(scaled.reshape(len(numbers), -1).T)]


def few_bits(rows: int, columns: int, depth: int, *, bits: int = 4, block: int = 32, level: int = 4) -> FewBits:
    """[rows, depth] @ constant [depth, columns] of few bits; at level 4 the rows may be rounded to 8 bits."""
    attributes: dict[str, Any] = {"K": depth, "N": columns, "bits": bits, "block_size": block}
    node = helper.make_node(
        "MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", accuracy_level=level, **attributes
    )
    return FewBits(
        f"{bits} bits {rows}x{columns}x{depth} b{block}" + ("" if level == 4 else f" level {level}"),
        "few bits",
        [node],
        {"x": (rows, depth)},
        (rows, columns),
        2.0 * rows * columns * depth,
        _torch_matmul,
        numpy=np.matmul,
        bits=bits,
        block=block,
    )


def _torch_matmul(torch: Any) -> Function:
    return torch.matmul
