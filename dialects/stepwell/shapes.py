"""Shape rules that several ops share."""

from __future__ import annotations

import numpy as np

from ...sizes.assumptions import suppose_equal
from ..core import OpError
from ..dims import Dim, DimShape, Symbolic, text
from ..types import TensorSpec, is_float, type_name


def broadcast(*shapes: DimShape) -> DimShape:
    """The shape of several shapes broadcast together by numpy's rules.

    A symbol broadcast with a number greater than 1 gives that number; with 1 it gives the symbol. Two different symbols
    are assumed to be equal, as the compiler cannot know whether one of them is 1.

    Raises:
        OpError: two dimensions differ and neither is 1.
    """
    if shapes and all(shape == shapes[0] for shape in shapes):
        return shapes[0]
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(_broadcast_dim(dims, shapes) for dims in zip(*padded, strict=True))


def _broadcast_dim(dims: tuple[Dim, ...], shapes: tuple[DimShape, ...]) -> Dim:
    numbers = {dim for dim in dims if isinstance(dim, int) and dim != 1}
    if len(numbers) > 1:
        raise OpError(f"shapes {' and '.join(map(shape_text, shapes))} cannot be broadcast together")
    symbols = [dim for dim in dims if isinstance(dim, Symbolic)]
    found = numbers.pop() if numbers else symbols[0] if symbols else 1
    for dim in symbols:
        if dim != found:
            suppose_equal(dim, found)
    return found


def broadcasts_to(shape: DimShape, target: DimShape) -> bool:
    """Returns whether `shape` can be broadcast to exactly `target`."""
    aligned = zip(reversed(shape), reversed(target), strict=False)
    return len(shape) <= len(target) and all(dim == 1 or may_equal(dim, wide) for dim, wide in aligned)


def same_dtype(*specs: TensorSpec) -> None:
    """Checks that all element types agree.

    Raises:
        OpError: they do not.
    """
    if len({spec.dtype for spec in specs}) > 1:
        raise OpError(
            f"operands must have one element type, but have {', '.join(type_name(spec.dtype) for spec in specs)}"
        )


def normalize_axis(axis: int, rank: int) -> int:
    """Normalises an axis to count from the front.

    Raises:
        OpError: there is no such axis.
    """
    if not -rank <= axis < rank:
        raise OpError(f"axis {axis} is out of range for rank {rank}")
    return axis % rank


BYTES = frozenset({np.dtype(np.int8), np.dtype(np.uint8)})
"""The integer types whose products are summed in 32 bits."""


def product_dtype(lhs: TensorSpec, rhs: TensorSpec) -> np.dtype:
    """The element type of sums of products: i32 for bytes of either sign, else the operands' common type.

    Raises:
        OpError: the operands' types differ.
    """
    if {lhs.dtype, rhs.dtype} <= BYTES:
        return np.dtype(np.int32)
    same_dtype(lhs, rhs)
    return lhs.dtype


def require_number(**specs: TensorSpec) -> None:
    """Checks that the named operands are of a numeric type.

    Raises:
        OpError: one is bool.
    """
    for name, spec in specs.items():
        if spec.dtype == np.bool_:
            raise OpError(f"operand '{name}' must be a number, but is {spec}")


def require_float(**specs: TensorSpec | None) -> None:
    """Checks that the named operands (except absent ones) are floating point.

    Raises:
        OpError: one is not.
    """
    for name, spec in specs.items():
        if spec is not None and not is_float(spec.dtype):
            raise OpError(f"operand '{name}' must be floating point, but is {spec}")


def require_dtype(dtype: np.dtype | type, **specs: TensorSpec | None) -> None:
    """Checks that the named operands (except absent ones) have the element type `dtype`.

    Raises:
        OpError: one does not.
    """
    for name, spec in specs.items():
        if spec is not None and spec.dtype != np.dtype(dtype):
            raise OpError(f"operand '{name}' must have element type {type_name(dtype)}, but is {spec}")


def require_rank(rank: int, **specs: TensorSpec | None) -> None:
    """Checks that the named operands (except absent ones) have `rank` dimensions.

    Raises:
        OpError: one does not.
    """
    for name, spec in specs.items():
        if spec is not None and spec.rank != rank:
            raise OpError(f"operand '{name}' must have rank {rank}, but is {spec}")


def require_count(count: TensorSpec | None) -> None:
    """Checks that an optional operand, a number of elements, is an i64 scalar.

    Raises:
        OpError: it is not.
    """
    if count is not None:
        require_dtype(np.int64, count=count)
        require_rank(0, count=count)


def require_shape(shape: DimShape, **specs: TensorSpec | None) -> None:
    """Checks that the named operands (except absent ones) have the dimensions of `shape`.

    Raises:
        OpError: one does not.
    """
    for name, spec in specs.items():
        if spec is None:
            continue
        if spec.rank != len(shape) or not all(map(may_equal, spec.shape, shape)):
            raise OpError(f"operand '{name}' must have shape {shape_text(shape)}, but is {spec}")


def require_length(length: int, **lists: tuple[Dim, ...]) -> None:
    """Checks that the named attributes have `length` entries.

    Raises:
        OpError: one does not.
    """
    for name, entries in lists.items():
        if len(entries) != length:
            raise OpError(f"attribute '{name}' must have {length} entries, but has {len(entries)}")


def may_equal(lhs: Dim, rhs: Dim) -> bool:
    """Returns whether two dimensions may be equal: only two different numbers may not."""
    if lhs == rhs:
        return True
    is_open = isinstance(lhs, Symbolic) or isinstance(rhs, Symbolic)
    if is_open:
        suppose_equal(lhs, rhs)
    return is_open


def common_dim(lhs: Dim, rhs: Dim) -> Dim:
    """The more specific of two dimensions that are equal."""
    return rhs if isinstance(lhs, Symbolic) else lhs


def shape_text(shape: DimShape) -> str:
    """A shape as it is spelt in a type."""
    return "x".join(map(text, shape)) or "()"


def normalize_axes(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Normalises `axes` to count from the front, in their own order.

    Raises:
        OpError: there is no such axis, or one is named twice.
    """
    normal = tuple(normalize_axis(axis, rank) for axis in axes)
    if len(set(normal)) < len(normal):
        raise OpError(f"axes {', '.join(map(str, axes))} name one axis twice")
    return normal


def concatenated(lhs: TensorSpec, rhs: TensorSpec, axis: int) -> TensorSpec:
    """The tensor of two along `axis`: the extents there add up, the others agree."""
    same_dtype(lhs, rhs)
    along = normalize_axis(axis, lhs.rank)
    pairs = list(zip(lhs.shape, rhs.shape, strict=False))
    if lhs.rank != rhs.rank or not all(may_equal(*pair) for index, pair in enumerate(pairs) if index != along):
        raise OpError(f"operands must have equal shapes except for axis {along}, but are {lhs} and {rhs}")
    dims = [left + right if index == along else common_dim(left, right) for index, (left, right) in enumerate(pairs)]
    return lhs.with_shape(tuple(dims))
