"""Weights in GGUF's formats of blocks, as numbers of 4 or 8 bits with a scale per block.

An element is `(number - zero) * scale`. If a format adds a minimum to the elements of a block, the zero includes it.
Numbers of 5 and 6 bits are stored in 8. Superblocks have two levels of scales, which are multiplied here. The formats:
ggml-common.h and ggml-quants.c of ggml.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import ModelError


@dataclass(frozen=True)
class BlockWeight:
    """Matrices [.., rows, columns] in blocks along their rows.

    Attributes:
        bits: bits of a number, 4 or 8.
        numbers: [.., rows, blocks, bytes], the lowest bits of a byte first.
        scales: [.., rows, blocks]: f16 as in the file, or f32 if they were multiplied.
        zeros: the zero point: one for all, or [.., rows, blocks].
        order: for each column, the input that it is multiplied with; None if they are in order.
    """

    bits: int
    numbers: np.ndarray
    scales: np.ndarray
    zeros: int | np.ndarray
    order: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the matrices."""
        *outer, blocks, size = self.numbers.shape
        return (*outer, blocks * size * 8 // self.bits)

    def changed(self, change: Callable[[np.ndarray], np.ndarray]) -> BlockWeight:
        """Returns the weight after a change of its rows or outer dimensions."""
        zeros = self.zeros if isinstance(self.zeros, int) else change(self.zeros)
        return replace(self, numbers=change(self.numbers), scales=change(self.scales), zeros=zeros)


def stacked(weights: Sequence[BlockWeight]) -> BlockWeight:
    """Returns several matrices as one weight.

    Raises:
        ModelError: they have different blocks, or inputs in different orders.
    """
    first = weights[0]
    if any((item.bits, item.numbers.shape) != (first.bits, first.numbers.shape) for item in weights):
        raise ModelError("has experts with different blocks, which are not supported")
    if any(item.order is not None for item in weights):
        raise ModelError("has experts whose groups are not in order (desc_act), which are not supported")
    zeros: int | np.ndarray = first.zeros
    if any(isinstance(item.zeros, np.ndarray) or item.zeros != zeros for item in weights):
        zeros = np.stack([np.broadcast_to(np.float32(item.zeros), item.scales.shape) for item in weights])
    return BlockWeight(
        first.bits, np.stack([item.numbers for item in weights]), np.stack([item.scales for item in weights]), zeros
    )


def is_block_format(kind: str) -> bool:
    """Returns whether a type of tensors is one of these formats."""
    return kind in _FORMATS


def read_blocks(kind: str, data: np.ndarray) -> BlockWeight:
    """Converts the bytes of rows [.., rows, bytes] of a format."""
    (size, convert), (*outer, row) = _FORMATS[kind], data.shape
    made = convert(np.ascontiguousarray(data).reshape(-1, row // size, size))

    return made.changed(lambda array: array.reshape(*outer, *array.shape[1:]))


def _shorts(blocks: np.ndarray, start: int) -> np.ndarray:
    """Reads the f16 at a byte offset of each block."""
    return blocks[..., start : start + 2].copy().view(np.float16)[..., 0]


def _floats(blocks: np.ndarray, start: int) -> np.ndarray:
    """Reads the f16 at a byte offset of each block, as f32."""
    return _shorts(blocks, start).astype(np.float32)


def _halves(data: np.ndarray) -> np.ndarray:
    """Splits bytes into numbers of 4 bits: all low halves, then all high halves: [.., n] --> [.., 2n]."""
    return np.concatenate([data & 15, data >> 4], axis=-1)


def _packed(numbers: np.ndarray) -> np.ndarray:
    """Stores two neighbouring numbers of 4 bits in each byte: [.., 2n] --> [.., n]."""
    return numbers[..., ::2] | numbers[..., 1::2] << 4


def _bit(words: np.ndarray, count: int) -> np.ndarray:
    """Returns the lowest bits of little-endian words, as a number each: [.., bytes] --> [.., count]."""
    return np.unpackbits(words, axis=-1, count=count, bitorder="little")


def _q4_0(blocks: np.ndarray) -> BlockWeight:
    return BlockWeight(4, _packed(_halves(blocks[..., 2:])), _shorts(blocks, 0), 8)


def _q4_1(blocks: np.ndarray) -> BlockWeight:
    return _with_minima(4, _halves(blocks[..., 4:]), _floats(blocks, 0), _floats(blocks, 2))


def _q5_0(blocks: np.ndarray) -> BlockWeight:
    numbers = _halves(blocks[..., 6:]) | _bit(blocks[..., 2:6], 32) << 4
    return BlockWeight(8, numbers, _shorts(blocks, 0), 16)


def _q5_1(blocks: np.ndarray) -> BlockWeight:
    numbers = _halves(blocks[..., 8:]) | _bit(blocks[..., 4:8], 32) << 4
    return _with_minima(8, numbers, _floats(blocks, 0), _floats(blocks, 2))


def _q8_0(blocks: np.ndarray) -> BlockWeight:
    return BlockWeight(8, blocks[..., 2:] ^ 128, _shorts(blocks, 0), 128)


def _q4_k(blocks: np.ndarray) -> BlockWeight:
    pairs = blocks[..., 16:].reshape(*blocks.shape[:-1], 4, 32)
    return _of_super(4, _halves(pairs), blocks)


def _q5_k(blocks: np.ndarray) -> BlockWeight:
    pairs = _halves(blocks[..., 48:].reshape(*blocks.shape[:-1], 4, 32))
    fifth = blocks[..., 16:48, None] >> np.arange(8, dtype=np.uint8) & 1
    numbers = pairs.reshape(*blocks.shape[:-1], 8, 32) | fifth.swapaxes(-1, -2) << 4
    return _of_super(8, numbers, blocks)


def _of_super(bits: int, numbers: np.ndarray, blocks: np.ndarray) -> BlockWeight:
    """Reads superblocks of eight blocks each, with scales and minima of 6 bits."""
    first, second, mixed = (blocks[..., start : start + 4] for start in (4, 8, 12))
    scales = np.concatenate([first & 63, mixed & 15 | first >> 6 << 4], axis=-1)
    minima = np.concatenate([second & 63, mixed >> 4 | second >> 6 << 4], axis=-1)
    scales = scales * _floats(blocks, 0)[..., None]
    minima = minima * -_floats(blocks, 2)[..., None]
    rows = len(blocks)
    return _with_minima(bits, numbers.reshape(rows, -1, 32), scales.reshape(rows, -1), minima.reshape(rows, -1))


def _with_minima(bits: int, numbers: np.ndarray, scales: np.ndarray, minima: np.ndarray) -> BlockWeight:
    """number * scale + minimum --> (number - zero) * scale

    A block whose scale is 0 has numbers of 0 instead: 0 * 0 + minimum --> (0 - 1) * -minimum.
    """
    is_flat = scales == 0
    scales = np.where(is_flat, -minima, scales)
    zeros = np.divide(-minima, scales, out=np.zeros_like(scales), where=scales != 0)
    numbers = np.where(is_flat[..., None], np.uint8(0), numbers)
    return BlockWeight(bits, _packed(numbers) if bits == 4 else numbers, scales, zeros)


def _q6_k(blocks: np.ndarray) -> BlockWeight:
    low = blocks[..., :128].reshape(*blocks.shape[:-1], 2, 2, 32)
    high = blocks[..., 128:192].reshape(*blocks.shape[:-1], 2, 1, 32)
    # Each half superblock in turn: 32 numbers at a time, whose upper bits are two bits of `high`.
    lower = np.concatenate([low & 15, low >> 4], axis=-2)
    upper = high >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    scales = blocks[..., 192:208].view(np.int8) * _floats(blocks, 208)[..., None]
    rows = len(blocks)
    return BlockWeight(8, (lower | upper << 4).reshape(rows, -1, 16), scales.reshape(rows, -1), 32)


_FORMATS: dict[str, tuple[int, Callable[[np.ndarray], BlockWeight]]] = {
    "Q4_0": (18, _q4_0),
    "Q4_1": (20, _q4_1),
    "Q5_0": (22, _q5_0),
    "Q5_1": (24, _q5_1),
    "Q8_0": (34, _q8_0),
    "Q4_K": (144, _q4_k),
    "Q5_K": (176, _q5_k),
    "Q6_K": (210, _q6_k),
}
"""Bytes of a block or superblock, and its conversion."""
