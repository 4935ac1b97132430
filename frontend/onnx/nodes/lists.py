"""Sequences of tensors that an import can track: lists of values, one per element."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from mlir import ir

SEQUENCE_OPERATORS = frozenset(
    {
        "ConcatFromSequence",
        "SequenceAt",
        "SequenceConstruct",
        "SequenceEmpty",
        "SequenceErase",
        "SequenceInsert",
        "SequenceLength",
        "SequenceMap",
        "SplitToSequence",
    }
)
"""The operators that produce or read sequences."""

TAKE_SEQUENCES = SEQUENCE_OPERATORS | {"Identity", "If", "Loop"}
"""The operators that accept sequences."""


@dataclass(frozen=True)
class ValueList:
    """A sequence whose length is known while importing.

    Attributes:
        values: its elements.
        dtype: their element type.
    """

    values: tuple[ir.Value, ...]
    dtype: np.dtype


def tensors_of(items: Iterable[ir.Value | ValueList | None]) -> list[ir.Value]:
    """The tensors among some values, including those in lists."""
    found: list[ir.Value] = []
    for item in items:
        if isinstance(item, ValueList):
            found += item.values
        elif item is not None:
            found.append(item)
    return found


def has_lists(items: Iterable[object]) -> bool:
    """Returns whether some value is a sequence."""
    return any(isinstance(item, ValueList) for item in items)
