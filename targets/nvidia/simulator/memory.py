"""Simulated memory with a state per byte: unallocated, undefined, defined, or in flight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ....runtime.cuda.errors import SimulationError
from .kinds import Array

UNALLOCATED, UNDEFINED, DEFINED, IN_FLIGHT = 0, 1, 2, 3
"""States of a byte."""
_REASONS = {
    UNALLOCATED: "out of bounds",
    UNDEFINED: "read of undefined memory",
    IN_FLIGHT: "access to memory that an asynchronous copy has not finished writing",
}
_WORDS = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
# Sixteen bytes at once are moved as complex numbers, which numpy gathers fast; there is no arithmetic on them.
_WIDE = np.dtype(np.complex128)


@dataclass(frozen=True)
class MemoryAccess:
    """Description of a memory access, for messages.

    Attributes:
        line: PTX line.
        what: name of the instruction.
        threads: indices in the batch of the accessing threads, one per address.
        describe: returns the name of a thread.
    """

    line: int
    what: str
    threads: Array
    describe: Callable[[int], str]

    def fault(self, position: int, address: int, reason: str) -> SimulationError:
        """Returns the error for the thread at a position."""
        thread = self.describe(int(self.threads[position]))
        return SimulationError(f"{self.what} at address {address:#x} by {thread}: {reason}", self.line)


class Space:
    """Bytes with a state each.

    Attributes:
        name: name of the state space, for messages.
        size: number of bytes, a multiple of 16.
        origin: address of the first byte, for messages.
        allow_undefined: whether bytes that were never written may be read.
    """

    def __init__(self, name: str, size: int, origin: int = 0, *, allow_undefined: bool = False) -> None:
        self.name = name
        self.origin = origin
        self.allow_undefined = allow_undefined
        self.size = 0
        self.data = np.zeros(0, np.uint8)
        self.state = np.zeros(0, np.uint8)
        self.resize(size)

    def resize(self, size: int) -> None:
        """Grows the space; the new bytes are unallocated."""
        data, state = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
        data[: self.size], state[: self.size] = self.data, self.state
        self.data, self.state, self.size = data, state, size
        self._words = {width: data.view(dtype) for width, dtype in _WORDS.items()} | {16: data.view(_WIDE)}
        self._states = {width: state.view(dtype) for width, dtype in _WORDS.items()} | {16: state.view(_WIDE)}

    def load(self, offsets: Array, width: int, access: MemoryAccess) -> Array:
        """Reads `width` bytes at each offset.

        Args:
            offsets: int64, multiples of the width.
            width: 1, 2, 4, 8 or 16.
            access: description of the access.

        Returns:
            Unsigned integers of the width; for 16 bytes, pairs of uint64.

        Raises:
            SimulationError: an address is misaligned or out of bounds, or its contents are undefined.
        """
        places = self._places(offsets, width, access)
        states = self._states[width].take(places)
        self._check_defined(states, offsets, width, access)
        values = self._words[width].take(places)
        return values.view(np.uint64) if width == 16 else values

    def store(self, offsets: Array, width: int, values: Array, access: MemoryAccess) -> None:
        """Writes values in the layout that `load` returns.

        Raises:
            SimulationError: an address is misaligned or out of bounds, or is the destination of a pending copy.
        """
        places = self._places(offsets, width, access)
        self._check_writable(places, offsets, width, access)
        words = self._words[width]
        words[places] = values.view(words.dtype)
        self._states[width][places] = _filled(DEFINED, width)

    def mark_in_flight(self, offsets: Array, width: int, access: MemoryAccess) -> None:
        """Marks bytes as the destination of a pending asynchronous copy.

        Raises:
            SimulationError: an address is misaligned or out of bounds, or is the destination of another pending copy.
        """
        places = self._places(offsets, width, access)
        self._check_writable(places, offsets, width, access)
        self._states[width][places] = _filled(IN_FLIGHT, width)

    def land(self, offsets: Array, width: int, values: Array) -> None:
        """Writes the data of an asynchronous copy to the bytes marked as its destination."""
        places = offsets >> (width.bit_length() - 1)
        words = self._words[width]
        words[places] = values.view(words.dtype)
        self._states[width][places] = _filled(DEFINED, width)

    def demand_aligned(self, offsets: Array, width: int, access: MemoryAccess) -> None:
        """Checks that addresses are multiples of a width and in bounds.

        Raises:
            SimulationError: an address is not.
        """
        self._places(offsets, width, access)

    def _places(self, offsets: Array, width: int, access: MemoryAccess) -> Array:
        joined = int(np.bitwise_or.reduce(offsets)) if len(offsets) else 0
        if joined & (width - 1):
            position = int(np.argmax(offsets & (width - 1) != 0))
            raise self._fault(access, position, offsets, f"not a multiple of the access's {width} bytes")
        if joined < 0 or (joined >= self.size and int(offsets.max()) >= self.size):
            position = int(np.argmax((offsets < 0) | (offsets >= self.size)))
            raise self._fault(access, position, offsets, f"out of bounds of {self.name} memory")
        return offsets >> (width.bit_length() - 1)

    def _check_defined(self, states: Array, offsets: Array, width: int, access: MemoryAccess) -> None:
        wrong = _differ(states, DEFINED, width)
        if not wrong.any():
            return
        kinds = states.view(np.uint8).reshape(-1, width)
        bad = (kinds != DEFINED) & ~(self.allow_undefined & (kinds == UNDEFINED))
        if bad.any():
            self._raise_first(bad, kinds, offsets, access)

    def _check_writable(self, places: Array, offsets: Array, width: int, access: MemoryAccess) -> None:
        states = self._states[width].take(places)
        if not _differ(states, DEFINED, width).any():
            return
        kinds = states.view(np.uint8).reshape(-1, width)
        bad = (kinds == UNALLOCATED) | (kinds == IN_FLIGHT)
        if bad.any():
            self._raise_first(bad, kinds, offsets, access)

    def _raise_first(self, bad: Array, kinds: Array, offsets: Array, access: MemoryAccess) -> None:
        position, byte = divmod(int(np.argmax(bad)), bad.shape[1])
        reason = f"{_REASONS[int(kinds[position, byte])]} ({self.name} memory)"
        raise self._fault(access, position, offsets + byte, reason)

    def _fault(self, access: MemoryAccess, position: int, offsets: Array, reason: str) -> SimulationError:
        return access.fault(position, self.origin + int(offsets[position]), reason)


def _filled(state: int, width: int) -> np.generic:
    bytes_ = np.full(max(width, 1), state, np.uint8)
    return bytes_.view(_WIDE if width == 16 else _WORDS[width])[0]


def _differ(states: Array, state: int, width: int) -> Array:
    if width == 16:
        return states.view(np.uint64) != _filled(state, 8)
    return states != _filled(state, width)


class GlobalMemory(Space):
    """The memory of the simulated device, with gaps between allocations."""

    ORIGIN = 1 << 40
    _ALIGNMENT = 256

    def __init__(self, *, allow_undefined: bool = False) -> None:
        super().__init__("global", 1 << 16, self.ORIGIN, allow_undefined=allow_undefined)
        self._top = self._ALIGNMENT
        self._sizes: dict[int, int] = {}

    def allocate(self, nbytes: int) -> int:
        """Allocates `nbytes` undefined bytes and returns their address."""
        start = self._top
        self._top += -(-nbytes // self._ALIGNMENT) * self._ALIGNMENT + self._ALIGNMENT
        if self._top > self.size:
            self.resize(1 << self._top.bit_length())
        self.state[start : start + nbytes] = UNDEFINED
        self._sizes[start] = nbytes
        return self.origin + start

    def free(self, address: int) -> None:
        """Frees an allocation; its addresses are not reused.

        Raises:
            KeyError: there is no allocation at that address.
        """
        start = address - self.origin
        self.state[start : start + self._sizes.pop(start)] = UNALLOCATED

    def part(self, address: int, nbytes: int) -> slice:
        """Returns the range of allocated bytes in `data` and `state`.

        Raises:
            SimulationError: not all of the bytes are allocated.
        """
        start = address - self.origin
        inside = start >= 0 and start + nbytes <= self.size
        if not inside or (self.state[start : start + nbytes] == UNALLOCATED).any():
            raise SimulationError(f"{nbytes} bytes at address {address:#x} are not all allocated")
        return slice(start, start + nbytes)

    def write(self, address: int, contents: bytes | Array) -> None:
        """Copies bytes to the device."""
        source = (
            np.frombuffer(contents, np.uint8) if isinstance(contents, bytes) else contents.reshape(-1).view(np.uint8)
        )
        part = self.part(address, len(source))
        self.data[part], self.state[part] = source, DEFINED

    def read(self, address: int, nbytes: int) -> Array:
        """Copies bytes from the device, defined or not."""
        return self.data[self.part(address, nbytes)].copy()
