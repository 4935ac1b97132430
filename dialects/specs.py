"""Specs of values in the IR, and checks of shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mlir import ir

from ..sizes.ratios import ratio
from . import forms
from .attributes import OpError
from .dims import MAX_RANK, Dim, DimShape, array, numbers
from .types import TensorSpec, array_of, is_float, spec_of_type


def check_extents(*shapes: DimShape) -> None:
    """Checks that tensors of these shapes could exist: MLIR's types hold 64-bit extents and do not report overflow.

    Raises:
        OpError: an extent is negative, a tensor has more elements than any memory could hold (not counting unknown and
            empty dimensions), or it has more dimensions than a numpy array can have.
    """
    for shape in shapes:
        if len(shape) > MAX_RANK:
            raise OpError(f"a tensor would have {len(shape)} dimensions, more than {MAX_RANK}")
        numbers = [dim for dim in shape if isinstance(dim, int) and dim]
        if numbers and (min(numbers) < 0 or math.prod(numbers) > _MAX_ELEMENTS):
            raise OpError(f"a tensor would have the impossible shape {'x'.join(map(str, shape))}")


_MAX_ELEMENTS = 2**48
"""Maximum number of elements: more bytes than the 48-bit addresses of x86-64 and AArch64 reach."""


def spec_of(value: ir.Value) -> TensorSpec:
    """The spec of a value according to the IR alone: its type and, if a constant op defines it, its contents."""
    owner = value.owner
    if isinstance(owner, ir.Block) or len(owner.operands):
        return spec_of_type(value.type)
    if owner.name == _SIZES:
        return _sizes_of(value)
    if "value" not in owner.attributes:
        return spec_of_type(value.type)
    attr = owner.attributes["value"]
    if not isinstance(attr, ir.DenseElementsAttr) or attr.type != value.type:
        return spec_of_type(value.type)
    array = array_of(attr)
    return TensorSpec(array.shape, array.dtype, array)


def _sizes_of(value: ir.Value) -> TensorSpec:
    values = forms.SIZES.read(value.owner.attributes["values"])
    spec = spec_of_type(value.type)
    if values is None or not spec.is_static or math.prod(numbers(spec.shape)) != len(values):
        return spec
    divisor = forms.I64.read(value.owner.attributes["divisor"]) if "divisor" in value.owner.attributes else 1
    return sizes_spec(values, divisor or 1, numbers(spec.shape), spec.dtype)


def sizes_spec(values: Sequence[Dim], divisor: int, shape: tuple[int, ...], dtype: np.dtype) -> TensorSpec:
    """The spec of a tensor of expressions over sizes, each divided by a number; floats are ratios."""
    entries = [ratio(value, divisor) for value in values] if is_float(dtype) else values
    return TensorSpec(shape, dtype, None, array(entries, shape))


_SIZES = "stepwell.sizes"


def size_of(value: ir.Value) -> int:
    """Returns the number of elements of a tensor of static shape."""
    return math.prod(ir.RankedTensorType(value.type).shape)
