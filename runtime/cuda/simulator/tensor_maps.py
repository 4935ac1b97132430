"""Tensor maps: which bytes of a tensor a box of it is of, and where these come to lie in shared memory.

The descriptors that a driver makes are not documented; those of the simulator hold the same facts in an order of its
own, in as many bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from ..errors import SimulationError
from ..launch_plan import ELEMENT_BYTES, TensorMap
from .kinds import Array

BYTES = 128
_MAGIC = 0x50414D57
_LAYOUT = struct.Struct("<IBBBBQ5Q4Q5H5B")


class Descriptor:
    """A tensor map as a kernel gets it.

    Attributes:
        width: bytes of an element.
        rank: how many dimensions there are.
        box: the elements of a box in each of them, innermost first.
    """

    def __init__(self, contents: bytes) -> None:
        """Reads the 128 bytes that `encode` has made.

        Raises:
            SimulationError: they are others.
        """
        magic, self.width, self.rank, self._swizzle, nan, self._address, *rest = _LAYOUT.unpack_from(contents)
        if magic != _MAGIC:
            raise SimulationError("what a copy is told of is no tensor map")
        self._nan = bool(nan)
        self._sizes = rest[: self.rank]
        self._strides = [self.width, *rest[5 : 4 + self.rank]]
        self._steps = rest[14 : 14 + self.rank]
        self.box = [-(-extent // step) for extent, step in zip(rest[9 : 9 + self.rank], self._steps, strict=True)]

    @property
    def nbytes(self) -> int:
        """The bytes of a box."""
        return int(np.prod(self.box)) * self.width

    def elements(self, corner: Sequence[int]) -> tuple[Array, Array]:
        """The elements of a box, innermost dimension last: their addresses, and which lie in the tensor."""
        addresses = np.array(self._address, np.int64)
        inside = np.array(True)
        for axis in range(self.rank):
            places = corner[axis] + np.arange(self.box[axis]) * self._steps[axis]
            held = (places >= 0) & (places < self._sizes[axis])
            shape = [1] * self.rank
            shape[self.rank - 1 - axis] = -1
            addresses = addresses + (places * self._strides[axis]).reshape(shape)
            inside = inside & held.reshape(shape)
        return addresses, inside

    def places(self, start: int) -> Array:
        """The shared addresses of a box's elements, innermost dimension last, if it begins at an address.

        Raises:
            SimulationError: the box or the address are not as the swizzle asks.
        """
        row = self.box[0] * self.width
        if self._swizzle and row != self._swizzle:
            raise SimulationError(f"rows of {row} bytes that swizzle by {self._swizzle} are not simulated")
        if start % 128:
            raise SimulationError(f"a box begins at shared address {start:#x}, which is no multiple of 128 bytes")
        linear = start + np.arange(int(np.prod(self.box)), dtype=np.int64) * self.width
        return swizzled(linear, self._swizzle).reshape(self.box[::-1])

    def filler(self) -> Array:
        """The element that stands for what is outside of the tensor."""
        zero = np.zeros(1, f"u{self.width}")
        if not self._nan:
            return zero[0]
        return {2: np.uint16(0x7FFF), 4: np.uint32(0x7FFFFFFF), 8: np.uint64(0x7FFFFFFFFFFFFFFF)}[self.width]


def encode(tensor: TensorMap, address: int) -> bytes:
    """The descriptor of a tensor at an address."""
    rank = len(tensor.sizes)
    sizes, strides = [*tensor.sizes, *[1] * 5][:5], [*tensor.strides, *[0] * 5][:4]
    box, steps = [*tensor.box, *[1] * 5][:5], [*(tensor.steps or [1] * rank), *[1] * 5][:5]
    packed = _LAYOUT.pack(
        _MAGIC, ELEMENT_BYTES[tensor.element], rank, tensor.swizzle, tensor.fill == "nan", address,
        *sizes, *strides, *box, *steps,
    )  # fmt: skip
    return packed.ljust(BYTES, b"\0")


def swizzled(addresses: Array, span: int) -> Array:
    """Shared addresses with pieces of 16 bytes permuted within a span of 32, 64 or 128 bytes; 0 for not at all.

    The bits above an address's lowest 7 that count spans of 128 bytes are added (exclusive or) to those that count
    pieces: three of them for spans of 128 bytes, two for 64, one for 32.
    """
    if not span:
        return addresses
    mask = np.int64(span - 1) & ~np.int64(15)
    return addresses ^ ((addresses >> 3) & mask)
