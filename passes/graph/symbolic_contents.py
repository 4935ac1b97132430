"""Contents of integer tensors as expressions over symbolic sizes.

A model computes shapes by ops on small integer tensors. If a size is symbolic, so is what these ops compute: the
contents of `shape_of` of a tensor<?x8xf32> whose first dimension is `n` are [n, 8].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...dialects.dims import Dim
from ...dialects.interfaces import Interface
from ...dialects.op import Op
from ...dialects.stepwell import movement
from ...dialects.stepwell.elementwise import (
    AddOp,
    CastOp,
    DivOp,
    EqualOp,
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
from ...dialects.stepwell.reduction import ReduceProdOp, ReduceSumOp
from ...dialects.types import TensorSpec, is_integer
from ...sizes import algebra

Rule = Callable[[Any, Sequence[Any]], np.ndarray | None]
"""Returns the contents of an op's result, from the arrays of its operands; None for an operand that is absent."""

CONTENTS = Interface[Rule](
    "contents",
    "contents as expressions over sizes, from those of the operands",
    rooms=("passes.graph.symbolic_contents",),
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
    found = rule(op, [None if spec is None else spec.contents for spec in operands])
    return result if found is None else with_contents(result, found)


def with_contents(spec: TensorSpec, contents: np.ndarray) -> TensorSpec:
    """Returns a tensor with contents that are numbers, booleans, or expressions."""
    if all(isinstance(entry, int | np.integer | np.bool_) for entry in contents.flat):
        return TensorSpec(spec.shape, spec.dtype, contents.astype(spec.dtype))
    return TensorSpec(spec.shape, spec.dtype, None, contents)


@CONTENTS.attach(
    AddOp,
    SubOp,
    MulOp,
    NegOp,
    SelectOp,
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
    """Keeps integers."""
    return arrays[0] if is_integer(op.dtype) else None


@CONTENTS.attach(DivOp)
def div(op: DivOp, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Divides what cannot be negative by positive numbers: there, rounding towards zero is rounding down."""
    return _each(lambda left, right: algebra.floor_div(left, right) if _is_above(left, -1) else None, arrays, 1)


@CONTENTS.attach(ModOp)
def mod(op: ModOp, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Computes remainders of divisions by positive numbers."""
    return _each(algebra.remainder, arrays, 1)


@CONTENTS.attach(MinimumOp)
def minimum(op: MinimumOp, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Computes minima."""
    return _each(lambda left, right: algebra.least((left, right)), arrays)


@CONTENTS.attach(MaximumOp)
def maximum(op: MaximumOp, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Computes maxima."""
    return _each(lambda left, right: algebra.greatest((left, right)), arrays)


@CONTENTS.attach(EqualOp)
def equal(op: EqualOp, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Compares expressions that are equal, or differ, whatever the sizes."""
    return _each(_equal, arrays)


@CONTENTS.attach(LessOp)
def less(op: LessOp, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Compares expressions of which one is less whatever the sizes."""
    return _each(_less, arrays)


@CONTENTS.attach(GreaterOp)
def greater(op: GreaterOp, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Compares expressions of which one is greater whatever the sizes."""
    return _each(lambda left, right: _less(right, left), arrays)


@CONTENTS.attach(LessEqualOp)
def less_equal(op: LessEqualOp, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Compares expressions of which one is not greater whatever the sizes."""
    return _each(lambda left, right: _less(left, right + 1), arrays)


@CONTENTS.attach(GreaterEqualOp)
def greater_equal(op: GreaterEqualOp, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Compares expressions of which one is not less whatever the sizes."""
    return _each(lambda left, right: _less(right, left + 1), arrays)


@CONTENTS.attach(ReduceSumOp)
def reduce_sum(op: ReduceSumOp, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Adds."""
    return np.asarray(np.add.reduce(arrays[0], axis=op.axes, keepdims=op.keepdims), dtype=object)


@CONTENTS.attach(ReduceProdOp)
def reduce_prod(op: ReduceProdOp, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Multiplies."""
    return np.asarray(np.multiply.reduce(arrays[0], axis=op.axes, keepdims=op.keepdims), dtype=object)


def _each(
    function: Callable[[Dim, Dim], Dim | bool | None], arrays: Sequence[np.ndarray], least: int | None = None
) -> np.ndarray | None:
    """Computes a function of each pair of elements; None if one is unknown, or a second one may be below `least`."""
    pairs = np.broadcast(*(array.astype(object) for array in arrays))
    found = np.empty(pairs.shape, object)
    for place, (first, second) in enumerate(pairs):
        if least is not None and not _is_above(second, least - 1):
            return None
        value = function(first, second)
        if value is None:
            return None
        found.flat[place] = value
    return found


def _is_above(dim: Dim, number: int) -> bool:
    low, _ = algebra.bounds(dim, {})
    return low is not None and low > number


def _equal(left: Dim, right: Dim) -> bool | None:
    low, high = algebra.bounds(left + right * -1, {})
    if low == high == 0:
        return True
    return False if (low is not None and low > 0) or (high is not None and high < 0) else None


def _less(left: Dim, right: Dim) -> bool | None:
    low, high = algebra.bounds(left + right * -1, {})
    if high is not None and high < 0:
        return True
    return False if low is not None and low >= 0 else None
