"""Writes to positions that an operand gives (ONNX ScatterElements, ScatterND, TensorScatter)."""

from __future__ import annotations

import numpy as np

from ...core import KernelTraits, Op, OpError, attribute, operand, optional_operand, result
from ...types import TensorSpec, is_integer
from ..shapes import common_dim, may_equal, normalize_axis, require_count, same_dtype

REDUCTIONS = ("none", "add", "mul", "max", "min")

_COMBINE = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


class ScatterOp(Op):
    """`input` with the slices along `axis` at `indices` replaced by, or combined with, `updates`.

    The dimensions before `axis` are batches, each with its own indices. Updates are applied in order: of several
    updates of one slice the last one wins. An index may count from the end; an update out of range is dropped.

    Attributes:
        axis: the dimension along which the slices lie.
        reduction: how a slice and its update combine; "none" stores the update.
        extent: index, in the table of extents, of the value of operand `count`, or -1. It does not change the values.

    ```mlir
    %3 = "stepwell.scatter"(%0, %1, %2) {axis = 0 : i64, reduction = "add"}
        : (tensor<8x4xf32>, tensor<3xi64>, tensor<3x4xf32>) -> tensor<8x4xf32>
    ```
    """

    OPERATION_NAME = "stepwell.scatter"
    KERNEL = KernelTraits("movement")
    input = operand()
    indices = operand("integers: the dimensions of the input before `axis`, then the number of updates")
    updates = operand("like the input, but with the number of updates along `axis`")
    count = optional_operand("i64, a scalar: the number of leading updates that are applied; absent, all")
    axis = attribute(int)
    reduction = attribute(str, default="none", choices=REDUCTIONS)
    extent = attribute(int, default=-1)
    result = result()

    @staticmethod
    def infer(
        input: TensorSpec,
        indices: TensorSpec,
        updates: TensorSpec,
        count: TensorSpec | None = None,
        *,
        axis: int,
        reduction: str,
        extent: int = -1,
    ) -> TensorSpec:
        """The result is like the input."""
        require_count(count)
        same_dtype(input, updates)
        if not is_integer(indices.dtype):
            raise OpError(f"operand 'indices' must be integers, but is {indices}")
        along = normalize_axis(axis, input.rank)
        if indices.rank != along + 1:
            raise OpError(f"operand 'indices' must have rank {along + 1}, for axis {along}, but is {indices}")
        wanted = (*input.shape[:along], indices.shape[-1], *input.shape[along + 1 :])
        if updates.rank != input.rank or not all(map(may_equal, updates.shape, wanted)):
            raise OpError(f"operand 'updates' must be {input.with_shape(wanted)}, but is {updates}")
        if not all(map(may_equal, indices.shape[:along], input.shape[:along])):
            raise OpError(f"operand 'indices' must have the batches of the input, {input}, but is {indices}")
        batches = tuple(map(common_dim, input.shape[:along], indices.shape[:along]))
        return input.with_shape((*batches, *input.shape[along:]))

    @staticmethod
    def reference(
        input: np.ndarray,
        indices: np.ndarray,
        updates: np.ndarray,
        count: np.ndarray | None = None,
        *,
        axis: int,
        reduction: str,
        extent: int = -1,
    ) -> np.ndarray:
        """Applies the updates one after the other."""
        result = np.array(input)
        axis %= input.ndim
        size = input.shape[axis]
        applied = indices.shape[-1] if count is None else min(max(int(count), 0), indices.shape[-1])
        for place in np.ndindex(*indices.shape[:-1], applied):
            index = int(indices[place])
            index += size if index < 0 else 0
            if not 0 <= index < size:
                continue
            target = (*place[:-1], index)
            value = updates[place]
            result[target] = value if reduction == "none" else _COMBINE[reduction](result[target], value)
        return result
