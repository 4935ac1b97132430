"""Helpers that build stepwell ops for handlers: an `emit` that folds constants, and common op sequences.

Arithmetic on constants is evaluated during the import, so that the shapes and conditions that a model computes from the
shapes of its inputs are numbers by the time an op needs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir

from ..dialects import dims
from ..dialects.core import Op, spec_of
from ..dialects.dims import Dim, is_static, numbers, product
from ..dialects.stepwell.constant import ConstantOp
from ..dialects.stepwell.contraction import MatmulOp
from ..dialects.stepwell.cumulative import CumulativeOp
from ..dialects.stepwell.elementwise import AddOp, CastOp
from ..dialects.stepwell.movement import (
    ConcatOp,
    DynamicReshapeOp,
    DynamicSliceOp,
    ExpandDimsOp,
    GatherOp,
    ReshapeOp,
    SqueezeOp,
    TransposeOp,
)
from ..dialects.stepwell.reduction import ReduceProdOp, ReduceSumOp
from ..dialects.stepwell.shape import ShapeOfOp, SizesOp
from ..dialects.stepwell.shapes import normalize_axis as normal_axis
from ..passes.graph.shapes.symbolic_contents import symbolic_contents
from ..passes.graph.values import numbered as numbered_line
from .errors import NeedsShapes

_LONGEST_CHAIN = 32
"""Maximum number of parts in a chain, which copies the first ones again for each further one: a choice."""

MAX_FOLDED = 64
"""Maximum number of elements of a folded result. Larger results are data, not shapes, and left to the compiler."""


MAX_TABLE = 1 << 20
"""Maximum number of elements of a table that is a literal; the IR must not contain larger tensors."""


def emit(op: type[Op], *operands: ir.Value | None, **attributes: Any) -> Any:
    """Builds an op at the current insertion point; its results are constants if its operands are.

    Returns:
        The op's result, or a tuple of its results.

    Raises:
        OpError: the op does not accept these operands.
    """
    return _emitted(op, operands, attributes, MAX_FOLDED)


def tabulate(op: type[Op], *operands: ir.Value | None, **attributes: Any) -> Any:
    """Builds an op as `emit` does, for a table computed from sizes: a literal if the sizes are numbers."""
    return _emitted(op, operands, attributes, MAX_TABLE)


def _emitted(op: type[Op], operands: Sequence[ir.Value | None], attributes: dict[str, Any], most: int) -> Any:
    built = op(*operands, **attributes)
    results = tuple(built.operation.results)
    given = [value for value in operands if value is not None]
    if given and len(results) == 1 and (sizes := _sizes(built)) is not None:
        built.operation.erase()
        return sizes
    contents = [array for value in given if (array := spec_of(value).value) is not None]
    if given and len(contents) == len(given) and _is_small(results, most):
        arrays = built.evaluate(dict(zip(given, contents, strict=True)).__getitem__)
        values = [constant(np.asarray(array)) for array in arrays]
        built.operation.erase()
        results = tuple(values)
    return results[0] if len(results) == 1 else results


def _sizes(built: Op) -> ir.Value | None:
    """The result of an op as `sizes` if it is a small tensor of expressions over sizes; else None."""
    (result,) = built.operation.results
    if not ir.RankedTensorType(result.type).has_static_shape or not _is_small([result]):
        return None
    operands = [None if value is None else spec_of(value) for value in built.operand_values()]
    if all(spec is None or (spec.symbols is None and spec.is_static) for spec in operands):
        return None
    (spec,) = built.infer_specs(spec_of)
    if spec.contents is None:
        spec = symbolic_contents(built, operands, spec)
    if spec.contents is None or not all(map(dims.is_known, spec.contents.flat)):
        return None
    return constant(spec.contents) if spec.symbols is None else SizesOp.of_contents(spec.symbols, spec.dtype).result


def _is_small(results: Sequence[ir.Value], most: int = MAX_FOLDED) -> bool:
    counts = (product(spec_of(result).shape) for result in results)
    return all(isinstance(count, int) and count <= most for count in counts)


def constant(array: np.ndarray) -> ir.Value:
    """A literal."""
    return ConstantOp(value=array).operation.result


def integers(values: Sequence[Dim] | int) -> ir.Value:
    """A list of integers or expressions over sizes, such as a shape, or a single integer."""
    array = np.array(values)
    if array.dtype != object:  # expressions are objects
        return constant(array.astype(np.int64))
    return SizesOp.of_contents(array, np.dtype(np.int64)).result


def numbered(count: Dim, axis: int = 0, rank: int = 1) -> ir.Value:
    """The integers 0, 1, .. below a dimension, along an axis of a tensor of some rank; i64."""
    line = numbered_line(count)
    return tabulate(ReshapeOp, line, shape=(count, *[1] * (rank - axis - 1))) if axis + 1 < rank else line


def scalar(number: float, like: ir.Value) -> ir.Value:
    """A literal number of the element type of `like`."""
    return constant(np.array(number, dtype=spec_of(like).dtype))


def shape(value: ir.Value) -> tuple[Dim, ...]:
    """The dimensions of a value."""
    return spec_of(value).shape


def rank(value: ir.Value) -> int:
    """The number of dimensions of a value."""
    return spec_of(value).rank


def dtype(value: ir.Value) -> np.dtype:
    """The element type of a value."""
    return spec_of(value).dtype


def cast(value: ir.Value, kind: np.dtype | type) -> ir.Value:
    """Casts `value` to another element type; returns it unchanged if it already has that type."""
    return value if spec_of(value).dtype == np.dtype(kind) else emit(CastOp, value, dtype=np.dtype(kind))


def shape_of(value: ir.Value) -> ir.Value:
    """The dimensions of a value as a list of integers: a literal if they are known."""
    extents = spec_of(value).shape
    return integers(numbers(extents)) if is_static(extents) else emit(ShapeOfOp, value)


def part(values: ir.Value, start: int, stop: int) -> ir.Value:
    """The slice `values[start:stop]` of a list."""
    return emit(DynamicSliceOp, values, integers([start]), integers([stop]))


def part_along(value: ir.Value, axis: int, start: Dim, stop: Dim) -> ir.Value:
    """The elements of a value from `start` up to and excluding `stop` along an axis."""
    if start == 0 and shape(value)[axis] == stop:
        return value
    return emit(DynamicSliceOp, value, integers([start]), integers([stop]), integers([axis]))


def dims_of(value: ir.Value, start: int, stop: int) -> ir.Value:
    """Some dimensions of a value as a list of integers: a literal if they are known."""
    some = shape(value)[start:stop]
    if is_static(some):
        return integers(numbers(some))
    return part(shape_of(value), start, stop)


def joined(values: Sequence[ir.Value], axis: int = 0) -> ir.Value:
    """Concatenates values: a chain of two-operand concats, or a tree if a chain would get too long."""
    if len(values) > _LONGEST_CHAIN:
        half = len(values) // 2
        return emit(ConcatOp, joined(values[:half], axis), joined(values[half:], axis), axis=axis)
    result = values[0]
    for value in values[1:]:
        result = emit(ConcatOp, result, value, axis=axis)
    return result


def reshaped(value: ir.Value, target: ir.Value) -> ir.Value:
    """`value` in another shape, given as a list of integers without wildcards."""
    known = spec_of(target).contents
    if known is not None:
        return emit(ReshapeOp, value, shape=tuple(known.tolist()))
    return emit(DynamicReshapeOp, value, target, allow_zero=True)


def flattened(value: ir.Value, axis: int) -> ir.Value:
    """Reshapes `value` to a matrix: the dimensions before `axis` become its rows, the others its columns.

    [a, b, c] --> [a, b * c] for axis 1
    """
    extents = shape(value)
    rows, columns = product(extents[:axis]), product(extents[axis:])
    if dims.is_known(rows) and dims.is_known(columns):
        return emit(ReshapeOp, value, shape=(rows, columns))
    if isinstance(rows, int) and rows:
        return emit(DynamicReshapeOp, value, integers([rows, -1]))
    if isinstance(columns, int) and columns:
        return emit(DynamicReshapeOp, value, integers([-1, columns]))
    counts = [
        emit(ReduceProdOp, dims_of(value, *span), axes=(0,), keepdims=True)
        for span in ((0, axis), (axis, len(extents)))
    ]
    return reshaped(value, joined(counts))


def line_of(value: ir.Value) -> ir.Value:
    """All elements as a vector."""
    count = product(shape(value))
    return (
        reshaped(value, integers([count])) if isinstance(count, int) else emit(DynamicReshapeOp, value, integers([-1]))
    )


def transposed(value: ir.Value, permutation: Sequence[int]) -> ir.Value:
    """Transposes `value`; returns it unchanged if the permutation is the identity."""
    order = tuple(permutation)
    return value if order == tuple(range(len(order))) else emit(TransposeOp, value, permutation=order)


def running(value: ir.Value, axis: int, mode: str = "sum", reverse: bool = False, exclusive: bool = False) -> ir.Value:
    """Running sums or products along an axis."""
    return emit(CumulativeOp, value, axis=axis, mode=mode, reverse=reverse, exclusive=exclusive)


def chained(op: type[Op], values: Sequence[ir.Value]) -> ir.Value:
    """Applies a binary op to any number of values, from the left."""
    result = values[0]
    for value in values[1:]:
        result = emit(op, result, value)
    return result


def summed(value: ir.Value, axis: int) -> ir.Value:
    """The sum along an axis, which goes."""
    return emit(ReduceSumOp, value, axes=(axis,), keepdims=False)


def added(lhs: ir.Value, rhs: ir.Value | None) -> ir.Value:
    """`lhs + rhs`, or `lhs` if `rhs` is None."""
    return lhs if rhs is None else emit(AddOp, lhs, rhs)


def known_dim(value: ir.Value, axis: int, what: str) -> Any:
    """Returns a dimension that must be a number or an expression over sizes.

    Raises:
        NeedsShapes: it is neither.
    """
    dim = shape(value)[axis]
    if not dims.is_known(dim):
        raise NeedsShapes(f"{what} must be known")
    return dim


def known_number(value: ir.Value, axis: int, what: str) -> int:
    """Returns a dimension that must be a number.

    Raises:
        NeedsShapes: it is none.
    """
    dim = shape(value)[axis]
    if not isinstance(dim, int):
        raise NeedsShapes(f"{what} must be known")
    return dim


def gathered(value: ir.Value, indices: ir.Value, axis: int) -> ir.Value:
    """The elements of `value` at `indices` along an axis."""
    return emit(GatherOp, value, indices, axis=normal_axis(axis, rank(value)))


def as_shape(values: ir.Value) -> ir.Value:
    """Checks that a list of extents, from which an op makes a shape, has a known length.

    Raises:
        NeedsShapes: its length is not known.
    """
    if rank(values) == 1:
        known_dim(values, 0, "the number of dimensions of the result")
    return values


def multiplied(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    """A matrix product by numpy's rules: a vector on the left is a row, a vector on the right a column."""
    left = emit(ExpandDimsOp, lhs, axes=(0,)) if rank(lhs) == 1 else lhs
    right = emit(ExpandDimsOp, rhs, axes=(1,)) if rank(rhs) == 1 else rhs
    result = emit(MatmulOp, left, right)
    vectors = tuple(axis for axis, operand in ((-2, lhs), (-1, rhs)) if rank(operand) == 1)
    return emit(SqueezeOp, result, axes=vectors) if vectors else result
