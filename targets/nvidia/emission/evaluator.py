"""Interface of the evaluator that the rules for single ops call: see `Values`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from mlir import ir

from .indices import Index

Lanes = list[ir.Value]
"""Neighbours along the last dimension of a tensor."""


class Evaluator(Protocol):
    """Computes elements of tensors at the insertion point."""

    def scope(self) -> AbstractContextManager[None]:
        """Prevents code written inside from being reused outside; for bodies of loops and branches."""
        ...

    def element(self, tensor: ir.Value, indices: Sequence[Index]) -> ir.Value:
        """Returns the element of a tensor at the given indices."""
        ...

    def lanes(self, tensor: ir.Value, indices: Sequence[Index], width: int) -> Lanes:
        """Returns `width` neighbours along the last dimension; the last index must be a multiple of `width`."""
        ...

    def one_by_one(self, tensor: ir.Value, indices: Sequence[Index], width: int) -> Lanes:
        """Returns the same as `lanes`, computed one element at a time."""
        ...

    def note(self, tensor: ir.Value, indices: Sequence[Index], lanes: Lanes) -> None:
        """Caches neighbours that were computed together with those of another tensor."""
        ...

    def scalar(self, value: ir.Value) -> ir.Value:
        """Copies to the insertion point a scalar computation that is outside the bodies of linalg ops."""
        ...
