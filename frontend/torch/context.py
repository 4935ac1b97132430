"""The current import, as handlers see it."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from mlir import ir

from .symbols import Symbols


class ProgramContext(Protocol):
    """The current import.

    Attributes:
        symbols: the values of symbolic sizes.
    """

    symbols: Symbols

    def weight(self, name: str, array: np.ndarray) -> ir.Value:
        """Creates a stored tensor: a literal if it is small, else a parameter."""
        ...
