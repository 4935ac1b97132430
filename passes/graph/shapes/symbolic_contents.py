"""Contents of integer tensors as expressions over symbolic sizes.

A model computes shapes by ops on small integer tensors. If a size is symbolic, so is what these ops compute: the
contents of `shape_of` of a tensor<?x8xf32> whose first dimension is `n` are [n, 8].

In floating point, the entries are ratios of an expression and a number (`sizes/ratios.py`), as far as floats hold them
exactly, or round them once: rounding n / 3 down gives n // 3 even though the quotient is rounded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ....dialects import dims
from ....dialects.dims import Dim, Symbolic
from ....dialects.interfaces import Interface
from ....dialects.op import Op
from ....dialects.stepwell import movement
from ....dialects.stepwell.elementwise import (
    AddOp,
    CastOp,
    CeilOp,
    DivOp,
    EqualOp,
    FloorOp,
    GreaterEqualOp,
    GreaterOp,
    LessEqualOp,
    LessOp,
    MaximumOp,
    MinimumOp,
    ModOp,
    MulOp,
    NegOp,
    SelectOp,
    SubOp,
)
from ....dialects.stepwell.reduction import ReduceProdOp, ReduceSumOp
from ....dialects.types import TensorSpec, is_float, is_integer
from ....sizes import algebra, extrema, ratios
from ....sizes.intervals import Interval
from ....sizes.ratios import Ratio

_Rule = Callable[[Any, Sequence[Any]], np.ndarray | None]
"""Returns the contents of an op's result, from the arrays of its operands; None for an operand that is absent."""

CONTENTS = Interface[_Rule](
    "contents",
    "contents as expressions over sizes, from those of the operands",
    rooms=("passes.graph.shapes.symbolic_contents",),
)


def symbolic_contents(op: Op, operands: Sequence[TensorSpec | None], result: TensorSpec) -> TensorSpec:
    """Returns the result of an op with its contents, if they follow from those of the operands.

    Args:
        op: the op.
        operands: its operands; None for one that is absent.
        result: its result without contents, of static shape.
    """
    rule = CONTENTS.of(type(op))
    given = [spec.contents for spec in operands if spec is not None]
    known = [array for array in given if array is not None]
    if rule is None or len(known) < len(given) or all(array.dtype != object for array in known):
        return result
    arrays = [None if spec is None else _entries(spec) for spec in operands]
    floats = [
        (array, spec.dtype) for array, spec in zip(arrays, operands, strict=True) if spec and is_float(spec.dtype)
    ]
    if not isinstance(op, _TAKES_ROUNDED) and not all(_are_held(array, dtype) for array, dtype in floats):
        return result
    found = rule(op, arrays)
    if found is None or (is_float(result.dtype) and not _are_held(found, result.dtype, isinstance(op, _MAY_ROUND))):
        return result
    return with_contents(result, found)


def _entries(spec: TensorSpec) -> np.ndarray | None:
    """The contents of a tensor; those of floats are ratios, and None if one is not finite."""
    if spec.contents is None or not is_float(spec.dtype):
        return spec.contents
    if spec.value is not None and not np.isfinite(spec.value.astype(np.float64)).all():
        return None
    return dims.array([ratios.entry(entry) for entry in spec.contents.flat], spec.contents.shape)


def _are_held(array: np.ndarray | None, dtype: np.dtype, may_round: bool = False) -> bool:
    """Returns whether floats hold ratios exactly, or round them so little that the integers around them are the same.

    A ratio n / d that is no integer is at least 1 / d away from the next one, relative to its value 1 / n.
    """
    digits = ml_dtypes.finfo(dtype).nmant + 1
    return array is not None and all(
        entry.is_exact_in(digits) or (may_round and entry.is_within(digits - 1)) for entry in array.flat
    )


def with_contents(spec: TensorSpec, contents: np.ndarray) -> TensorSpec:
    """Returns a tensor with contents that are numbers, booleans, expressions, or ratios."""
    numbers = [entry.number if isinstance(entry, Ratio) else entry for entry in contents.flat]
    if not any(entry is None or isinstance(entry, Symbolic) for entry in numbers):
        return TensorSpec(spec.shape, spec.dtype, np.array(numbers).astype(spec.dtype).reshape(contents.shape))
    return TensorSpec(spec.shape, spec.dtype, None, contents)


_MOVES = (
    movement.BroadcastToOp,
    movement.ConcatOp,
    movement.ExpandDimsOp,
    movement.GatherOp,
    movement.ReshapeOp,
    movement.SliceOp,
    movement.SqueezeOp,
    movement.TileOp,
    movement.TransposeOp,
)
_MAY_ROUND = (DivOp, CastOp, movement.DynamicSliceOp, movement.DynamicReshapeOp, movement.DynamicBroadcastToOp, *_MOVES)
_TAKES_ROUNDED = (FloorOp, CeilOp, CastOp, *_MAY_ROUND[2:])


@CONTENTS.attach(AddOp, SubOp, MulOp, NegOp, SelectOp, *_MOVES)
def by_reference(op: Op, arrays: Sequence[Any]) -> np.ndarray:
    """Computes the contents by the op's reference, whose numpy functions take expressions as they take numbers."""
    return np.asarray(type(op).reference(*arrays, **op.attribute_values()), dtype=object)


@CONTENTS.attach(movement.DynamicSliceOp, movement.DynamicReshapeOp, movement.DynamicBroadcastToOp)
def moved_by_numbers(op: Op, arrays: Sequence[Any]) -> np.ndarray | None:
    """Moves the first operand, if the others are numbers."""
    is_known = all(array is None or array.dtype != object for array in arrays[1:])
    return by_reference(op, arrays) if is_known else None


@CONTENTS.attach(CastOp)
def cast(op: CastOp, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Keeps integers, makes ratios of them, and rounds ratios towards zero."""
    (array,) = arrays
    if is_float(op.dtype):
        return _of_ratios(ratios.entry, array)
    if not is_integer(op.dtype):
        return None
    found = [_truncated(entry) if isinstance(entry, Ratio) else entry for entry in array.flat]
    known = [entry for entry in found if entry is not None]
    return dims.array(known, array.shape) if len(known) == len(found) else None


def _truncated(ratio: Ratio) -> Dim | None:
    return ratio.floor if ratio.divisor == 1 or _is_above(ratio.numerator, -1) else None


def _of_ratios(function: Callable[[Any], Dim | Ratio], array: np.ndarray) -> np.ndarray:
    return dims.array([function(entry) for entry in array.flat], array.shape)


@CONTENTS.attach(FloorOp)
def floor(op: FloorOp, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Rounds ratios down."""
    return _of_ratios(lambda entry: Ratio(entry.floor), arrays[0])


@CONTENTS.attach(CeilOp)
def ceil(op: CeilOp, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Rounds ratios up."""
    return _of_ratios(lambda entry: Ratio(entry.ceil), arrays[0])


@CONTENTS.attach(DivOp)
def div(op: DivOp, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Divides expressions that are never negative by positive numbers: there, rounding towards zero is rounding down.

    Ratios are divided by numbers.
    """

    def divided(left: Any, right: Any) -> Dim | Ratio | None:
        if isinstance(left, Ratio):
            return left.over(right) if right.number else None
        return algebra.floor_div(left, right) if _is_above(left, -1) and _is_above(right, 0) else None

    return _each(divided, arrays)


@CONTENTS.attach(ModOp)
def mod(op: ModOp, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Computes remainders of divisions by positive numbers."""
    return _each(lambda left, right: algebra.remainder(left, right) if _is_above(right, 0) else None, arrays)


@CONTENTS.attach(MinimumOp)
def minimum(op: MinimumOp, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Computes minima."""
    return _each(functools.partial(_extremum, is_least=True), arrays)


@CONTENTS.attach(MaximumOp)
def maximum(op: MaximumOp, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Computes maxima."""
    return _each(functools.partial(_extremum, is_least=False), arrays)


def _extremum(left: Any, right: Any, is_least: bool) -> Dim | Ratio:
    if isinstance(left, Ratio):
        return ratios.extremum((left, right), is_least)
    return extrema.least((left, right)) if is_least else extrema.greatest((left, right))


@CONTENTS.attach(EqualOp)
def equal(op: EqualOp, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Compares expressions that are equal at all sizes, or different at all sizes."""
    return _each(_equal, arrays)


@CONTENTS.attach(LessOp)
def less(op: LessOp, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Compares expressions by `<` if the result is the same at all sizes."""
    return _each(_less, arrays)


@CONTENTS.attach(GreaterOp)
def greater(op: GreaterOp, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Compares expressions by `>` if the result is the same at all sizes."""
    return _each(lambda left, right: _less(right, left), arrays)


@CONTENTS.attach(LessEqualOp)
def less_equal(op: LessEqualOp, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Compares expressions by `<=` if the result is the same at all sizes."""
    return _each(lambda left, right: _not(_less(right, left)), arrays)


@CONTENTS.attach(GreaterEqualOp)
def greater_equal(op: GreaterEqualOp, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Compares expressions by `>=` if the result is the same at all sizes."""
    return _each(lambda left, right: _not(_less(left, right)), arrays)


@CONTENTS.attach(ReduceSumOp)
def reduce_sum(op: ReduceSumOp, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Adds entries."""
    return np.asarray(np.add.reduce(arrays[0], axis=op.axes, keepdims=op.keepdims), dtype=object)


@CONTENTS.attach(ReduceProdOp)
def reduce_prod(op: ReduceProdOp, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Multiplies entries."""
    return np.asarray(np.multiply.reduce(arrays[0], axis=op.axes, keepdims=op.keepdims), dtype=object)


def _each(function: Callable[[Any, Any], Dim | Ratio | bool | None], arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Computes a function of each pair of elements; None if one is unknown."""
    pairs = np.broadcast(*(array.astype(object) for array in arrays))
    found = np.empty(pairs.shape, object)
    for index, (first, second) in enumerate(pairs):
        value = function(first, second)
        if value is None:
            return None
        found.flat[index] = value
    return found


def _is_above(dim: Dim, number: int) -> bool:
    low, _ = algebra.bounds(dim, {})
    return low is not None and low > number


def _difference(left: Any, right: Any) -> Interval:
    """An interval that contains the difference of two entries, or a positive multiple of it."""
    return algebra.bounds((ratios.entry(left) - ratios.entry(right)).numerator, {})


def _equal(left: Any, right: Any) -> bool | None:
    low, high = _difference(left, right)
    if low == high == 0:
        return True
    return False if (low is not None and low > 0) or (high is not None and high < 0) else None


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _less(left: Any, right: Any) -> bool | None:
    low, high = _difference(left, right)
    if high is not None and high < 0:
        return True
    return False if low is not None and low >= 0 else None
