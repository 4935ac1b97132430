"""The model for a speculative compile, and the kernels that a worker has begun to compile.

Needs no MLIR: a worker starts while this process imports it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from .shared_file import NUMBER, SharedFile, encoded


@dataclass(frozen=True)
class Speculation:
    """The parameters of a speculative compile of the model in a `Claims`.

    Attributes:
        target: the target to generate code for.
        shapes: the shapes of the model's inputs.
        without: the names of passes to leave out before the phase `graph`.
    """

    target: str
    shapes: tuple[tuple[int, ...], ...]
    without: tuple[str, ...]


class Claims(SharedFile):
    """A file with a model, and the names of the kernels that a worker has begun to compile, until it is settled."""

    def put(self, model: bytes) -> None:
        """Writes a model into the file, which is then not settled.

        Raises:
            OSError: the disk is full.
        """
        with self.locked():
            self.write_anew(encoded(0, len(model)) + model)

    def model(self) -> bytes:
        """Returns the model."""
        return os.pread(self.descriptor, self.number(1), 2 * NUMBER)

    def claim(self, names: Sequence[str]) -> bool:
        """Records that this process compiles some kernels; returns False if the claims are settled."""
        with self.locked():
            if self.is_settled:
                return False
            os.pwrite(self.descriptor, "".join(f"{name}\n" for name in names).encode(), self._size)
            return True

    @property
    def is_settled(self) -> bool:
        """True if no more kernels can be claimed."""
        return self.number(0) != 0

    def settle(self) -> set[str]:
        """Refuses further claims, and returns the kernels that were claimed."""
        with self.locked():
            start = 2 * NUMBER + self.number(1)
            names = os.pread(self.descriptor, self._size, start).decode().split()
            self.write_anew(encoded(1, 0))
            return set(names)

    @property
    def _size(self) -> int:
        return os.fstat(self.descriptor).st_size
