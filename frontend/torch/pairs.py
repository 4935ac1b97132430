"""Complex numbers as pairs of real ones."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from mlir import ir

from ...dialects.types import TensorSpec
from .tensors import part_dtype


@dataclass(frozen=True)
class Complex:
    """A tensor of complex numbers.

    Attributes:
        real: the real parts.
        imaginary: the imaginary parts, of the same shape.
    """

    real: ir.Value
    imaginary: ir.Value

    @property
    def parts(self) -> tuple[ir.Value, ir.Value]:
        """Both parts."""
        return self.real, self.imaginary


def parts_of(dtype: np.dtype) -> np.dtype:
    """Returns the element type of the parts of complex numbers; other types are returned unchanged."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def same_type(spec: TensorSpec, known: torch.Tensor) -> bool:
    """Returns whether a value, or a part of it, has the element type that torch computes, and no other known sizes."""
    return (
        spec.dtype == part_dtype(known.dtype)
        and spec.rank == known.dim()
        and not any(
            isinstance(ours, int) and isinstance(theirs, int) and ours != theirs
            for ours, theirs in zip(spec.shape, known.shape, strict=True)
        )
    )
