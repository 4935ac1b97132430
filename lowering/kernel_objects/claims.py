"""A model that a process goes ahead with, and which of its kernels that process has begun to compile.

Needs no MLIR: a worker starts while this process imports it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from .shared_queue import unlinked_file

_NUMBER = 8


@dataclass(frozen=True)
class Outlook:
    """What there is to do with a model that waits in a `Claims`.

    Attributes:
        target: the machine to generate code for.
        shapes: those of the model's inputs.
        without: the names of passes to leave out on the way to the phase `graph`.
    """

    target: str
    shapes: tuple[tuple[int, ...], ...]
    without: tuple[str, ...]


class Claims:
    """A file with a model, and the names of the kernels that a process has begun to compile, until it is settled.

    Attributes:
        descriptor: the file, for a process that inherits it.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        """Makes such a file, or is one that this process has inherited.

        Raises:
            OSError: there can be no such file.
        """
        self.descriptor = unlinked_file() if descriptor is None else descriptor

    def put(self, model: bytes) -> None:
        """Writes a model into the file, which is no longer settled.

        Raises:
            OSError: there is no room for it.
        """
        left, end = memoryview(model), 2 * _NUMBER + len(model)
        with self._locked():
            os.ftruncate(self.descriptor, 0)
            while left:
                left = left[os.pwrite(self.descriptor, left, end - len(left)) :]
            self._set(1, len(model))

    def model(self) -> bytes:
        """The model."""
        return os.pread(self.descriptor, self._number(1), 2 * _NUMBER)

    def claim(self, names: Sequence[str]) -> bool:
        """Notes that this process compiles some kernels; whether it may."""
        with self._locked():
            if self.is_settled:
                return False
            os.pwrite(self.descriptor, "".join(f"{name}\n" for name in names).encode(), self._size)
            return True

    @property
    def is_settled(self) -> bool:
        """Whether kernels are shared out otherwise from now on."""
        return self._number(0) != 0

    def settle(self) -> set[str]:
        """The kernels that were claimed, and all that ever will be."""
        with self._locked():
            start = 2 * _NUMBER + self._number(1)
            names = os.pread(self.descriptor, self._size, start).decode().split()
            os.ftruncate(self.descriptor, 0)
            self._set(0, 1)
            return set(names)

    def close(self) -> None:
        """Closes the file, which is then gone."""
        os.close(self.descriptor)

    @property
    def _size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def _number(self, place: int) -> int:
        return int.from_bytes(os.pread(self.descriptor, _NUMBER, _NUMBER * place), "little")

    def _set(self, place: int, number: int) -> None:
        os.pwrite(self.descriptor, number.to_bytes(_NUMBER, "little"), _NUMBER * place)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.lockf(self.descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self.descriptor, fcntl.LOCK_UN)
