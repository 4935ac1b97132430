"""Fills memory that native code must write before reading with a pattern, to expose reads of unwritten memory.

Fresh memory often holds the last run's values, so code that forgets to write a result may look right. With
`STEPWELL_POISON=ff` (any byte, in hexadecimal) or inside `filled_with`, each call fills its outputs and arena first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ...support import environment

PATTERNS = (0xFF, 0x55)
"""Two bytes to compare results by: floats filled with the first are NaN, with the second ordinary (1.5e13 in f32)."""


def _from_environment() -> int | None:
    try:
        return environment.poison()
    except environment.VariableError:  # reported by whatever compiles, loads or runs as a tool
        return None


byte: int | None = _from_environment()
"""The byte to fill memory with before each call; None to leave it unchanged."""


@contextmanager
def filled_with(pattern: int) -> Iterator[None]:
    """Fills memory with the byte `pattern` before each call inside the block, in all threads."""
    global byte
    before, byte = byte, pattern
    try:
        yield
    finally:
        byte = before


def fill(arrays: Sequence[np.ndarray]) -> None:
    """Writes the pattern to contiguous arrays, if there is one."""
    if byte is None:
        return
    for array in arrays:
        array.reshape(-1).view(np.uint8)[...] = byte
