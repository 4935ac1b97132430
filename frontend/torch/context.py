"""The current import, as handlers see it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from mlir import ir

from ..counts import Counts
from .symbols import Symbols


class ProgramContext(Protocol):
    """The current import.

    Attributes:
        symbols: the values of symbolic sizes.
        counts: the values whose size depends on data.
    """

    symbols: Symbols
    counts: Counts

    def graph(self, module: Any, inputs: Sequence[Any]) -> list[Any]:
        """Imports a graph of torch at the insertion point; returns its results."""
        ...

    def inner(self) -> AbstractContextManager[None]:
        """Drops, at the end of a region, the sizes that became known inside of it."""
        ...

    def bits(self, shape: Sequence[int]) -> ir.Value | None:
        """Creates random bits, ui32; None if the import is not for training."""
        ...

    def weight(self, name: str, array: np.ndarray) -> ir.Value:
        """Creates a stored tensor: a literal if it is small, else a parameter."""
        ...
