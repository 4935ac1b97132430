"""A model that a process goes ahead with, and which of its kernels that process has begun to compile.

Needs no MLIR: a worker starts while this process imports it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from .shared_file import NUMBER, SharedFile, encoded


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


class Claims(SharedFile):
    """A file with a model, and the names of the kernels that a process has begun to compile, until it is settled."""

    def put(self, model: bytes) -> None:
        """Writes a model into the file, which is no longer settled.

        Raises:
            OSError: there is no room for it.
        """
        with self.locked():
            self.write_anew(encoded(0, len(model)) + model)

    def model(self) -> bytes:
        """The model."""
        return os.pread(self.descriptor, self.number(1), 2 * NUMBER)

    def claim(self, names: Sequence[str]) -> bool:
        """Notes that this process compiles some kernels; whether it may."""
        with self.locked():
            if self.is_settled:
                return False
            os.pwrite(self.descriptor, "".join(f"{name}\n" for name in names).encode(), self._size)
            return True

    @property
    def is_settled(self) -> bool:
        """Whether kernels are shared out otherwise from now on."""
        return self.number(0) != 0

    def settle(self) -> set[str]:
        """The kernels that were claimed, and all that ever will be."""
        with self.locked():
            start = 2 * NUMBER + self.number(1)
            names = os.pread(self.descriptor, self._size, start).decode().split()
            self.write_anew(encoded(1, 0))
            return set(names)

    @property
    def _size(self) -> int:
        return os.fstat(self.descriptor).st_size
