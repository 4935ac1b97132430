"""Interface of observers of memory accesses."""

from __future__ import annotations

from typing import Protocol

from .kinds import Array
from .memory import MemoryAccess, Space


class Observer(Protocol):
    """Observer of memory accesses."""

    def accessed(self, memory: Space, offsets: Array, width: int, access: MemoryAccess) -> None:
        """Records an access of `width` bytes per thread."""
