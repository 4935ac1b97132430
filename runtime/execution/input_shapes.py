"""Checks of a call's input shapes against those that a model declares."""

from __future__ import annotations

from collections.abc import Sequence

from ...support.errors import InputError
from ...support.wording import quantity
from ..program import ANY_RANK, Shape, TensorInfo


def check_shapes(inputs: Sequence[TensorInfo], shapes: tuple[Shape, ...]) -> None:
    """Compares shapes with the declared ones; a symbol must have the same value wherever it occurs.

    Raises:
        InputError: they differ.
    """
    bound: dict[str, tuple[int, str]] = {}
    for info, shape in zip(inputs, shapes, strict=True):
        if info.shape == (ANY_RANK,):
            continue
        if len(shape) != len(info.shape):
            raise InputError(
                f"input '{info.name}' must have {quantity(len(info.shape), 'dimension')} ({info}), "
                f"but has shape {shape}"
            )
        for axis, (declared, dim) in enumerate(zip(info.shape, shape, strict=True)):
            expected, where = (
                bound.setdefault(declared, (dim, info.name)) if isinstance(declared, str) else (declared, "")
            )
            if dim != expected:
                also = f" as in input '{where}'" if where else ""
                raise InputError(
                    f"input '{info.name}' must have {expected}{also} in dimension {axis} ({info}), "
                    f"but has shape {shape}"
                )
