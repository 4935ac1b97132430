"""Sequences of tensors, as far as an import can follow them: lists of values, one for each element."""

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
"""The operators that make sequences or read them."""

TAKE_SEQUENCES = SEQUENCE_OPERATORS | {"Identity", "If", "Loop"}
"""Those that a sequence may be given to."""


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
    """The tensors among some values, those in lists included."""
    found: list[ir.Value] = []
    for item in items:
        if isinstance(item, ValueList):
            found += item.values
        elif item is not None:
            found.append(item)
    return found


def has_lists(items: Iterable[object]) -> bool:
    """Whether a sequence is among some values."""
    return any(isinstance(item, ValueList) for item in items)
