"""Tensor maps: addresses of a box's elements in the tensor and in shared memory.

The format of the driver's descriptors is undocumented. The simulator's descriptors hold the same information in a
format of their own, with the same size.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from ....runtime.cuda.errors import SimulationError
from ....runtime.launch_plan import ELEMENT_BYTES, TensorMap
from .kinds import Array

BYTES = 128
"""Size of a tensor map (CUtensorMap of cuda.h)."""
_MAGIC = 0x50414D57
"""The bytes `WMAP`, which mark a simulated descriptor."""
_LAYOUT = struct.Struct("<IBBBBQ5Q4Q5H5B")


class Descriptor:
    """A tensor map as a kernel receives it.

    Attributes:
        width: bytes per element.
        rank: number of dimensions.
        box: elements of a box in each dimension, innermost first.
    """

    def __init__(self, contents: bytes) -> None:
        """Decodes the 128 bytes that `encode` returns.

        Raises:
            SimulationError: the bytes are not a tensor map.
        """
        magic, self.width, self.rank, self._swizzle, nan, self._address, *rest = _LAYOUT.unpack_from(contents)
        if magic != _MAGIC:
            raise SimulationError("the operand of a copy is not a tensor map")
        self._nan = bool(nan)
        self._sizes = rest[: self.rank]
        self._strides = [self.width, *rest[5 : 4 + self.rank]]
        self._steps = rest[14 : 14 + self.rank]
        self.box = [-(-extent // step) for extent, step in zip(rest[9 : 9 + self.rank], self._steps, strict=True)]

    @property
    def nbytes(self) -> int:
        """Bytes of a box."""
        return int(np.prod(self.box)) * self.width

    def elements(self, corner: Sequence[int]) -> tuple[Array, Array]:
        """Returns the addresses of a box's elements, innermost dimension last, and a mask of those in bounds."""
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
        """Returns the shared addresses of a box's elements, innermost dimension last, for a box at `start`.

        Raises:
            SimulationError: the box or the address does not satisfy the requirements of the swizzle.
        """
        row = self.box[0] * self.width
        if self._swizzle and row != self._swizzle:
            raise SimulationError(f"rows of {row} bytes with swizzle {self._swizzle} are not supported")
        if start % 128:
            raise SimulationError(f"a box begins at shared address {start:#x}, which is not a multiple of 128 bytes")
        linear = start + np.arange(int(np.prod(self.box)), dtype=np.int64) * self.width
        return swizzled(linear, self._swizzle).reshape(self.box[::-1])

    def filler(self) -> Array:
        """Returns the value of elements outside the tensor."""
        zero = np.zeros(1, f"u{self.width}")
        if not self._nan:
            return zero[0]
        return {2: np.uint16(0x7FFF), 4: np.uint32(0x7FFFFFFF), 8: np.uint64(0x7FFFFFFFFFFFFFFF)}[self.width]


def encode(tensor: TensorMap, address: int) -> bytes:
    """Returns the descriptor of a tensor at an address."""
    rank = len(tensor.sizes)
    sizes, strides = [*tensor.sizes, *[1] * 5][:5], [*tensor.strides, *[0] * 5][:4]
    box, steps = [*tensor.box, *[1] * 5][:5], [*(tensor.steps or [1] * rank), *[1] * 5][:5]
    packed = _LAYOUT.pack(
        _MAGIC, ELEMENT_BYTES[tensor.element], rank, tensor.swizzle, tensor.fill == "nan", address,
        *sizes, *strides, *box, *steps,
    )  # fmt: skip
    return packed.ljust(BYTES, b"\0")


def swizzled(addresses: Array, span: int) -> Array:
    """Permutes 16-byte chunks of shared addresses within a span of 32, 64 or 128 bytes; 0 for no permutation.

    The number of the 128-byte line is combined by exclusive or with the number of the chunk: three bits of it for spans
    of 128 bytes, two for 64, one for 32.
    """
    if not span:
        return addresses
    mask = np.int64(span - 1) & ~np.int64(15)
    return addresses ^ ((addresses >> 3) & mask)
