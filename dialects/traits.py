"""Traits of op classes: the accuracy of results, and the kernel that an op becomes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Rounding(Enum):
    """Possible differences between floating-point results of an op and its reference."""

    EXACT = "exact"
    """Moves, selects or compares values: no difference."""
    ROUNDED = "rounded"
    """A function with a stated error bound."""
    SUM = "sum"
    """Adds terms in an unspecified order: no error bound is stated."""


@dataclass(frozen=True)
class KernelTraits:
    """Traits of the kernel that an op becomes, alone or as the heaviest op of a kernel.

    Attributes:
        kind: class of the kernel, which decides what fuses with it, how it is lowered and its schedule.
        works_on_views: whether the kernel reads parts of larger tensors, and writes into one, as fast as whole tensors.
    """

    kind: str
    works_on_views: bool = False
