"""Concatenation of tensors whose sizes vary, both allocated at their upper bounds."""

from __future__ import annotations

import numpy as np

from ...core import KernelTraits, Op, OpError, attribute, operand, result
from ...types import TensorSpec
from ..shapes import concatenated, normalize_axis, require_length, require_rank


class AppendOp(Op):
    """The data of `lhs`, that of `rhs` directly behind it along `axis`, and zeros behind both.

    The table of extents holds how many elements along `axis` are data.

    ```mlir
    %3 = "stepwell.append"(%0, %1, %2) {axis = 1 : i64, ends = array<i64: 0, -1>, layout = array<i64>}
      : (tensor<4x511x8xf32>, tensor<4x1x8xf32>, tensor<256xi64>) -> tensor<4x512x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.append"
    KERNEL = KernelTraits("movement")
    lhs = operand()
    rhs = operand()
    table = operand("the table of extents, 1-D i64")
    axis = attribute(int)
    ends = attribute(tuple, doc="per operand the index in the table of the number of elements, -1 for all of them")
    layout = attribute(
        tuple,
        (),
        doc="if `lhs` is an input that is read as it lies in the caller's memory: the indices in the table of its "
        "stride along each dimension before `axis` (-1 for a dimension of one element), and of the number of elements "
        "to copy along `axis`, which is 0 if `lhs` and the result share memory",
    )
    held = attribute(
        tuple,
        (),
        doc="with `layout`: the indices in the table of the extents of `lhs` before `axis`, -1 for a dimension that "
        "does not vary: the caller's memory ends there",
    )
    result = result()

    @staticmethod
    def infer(
        lhs: TensorSpec,
        rhs: TensorSpec,
        table: TensorSpec,
        *,
        axis: int,
        ends: tuple[int, ...],
        layout: tuple[int, ...] = (),
        held: tuple[int, ...] = (),
    ) -> TensorSpec:
        """The extents along `axis` add up, the others agree."""
        require_rank(1, table=table)
        made = concatenated(lhs, rhs, axis)
        along = normalize_axis(axis, lhs.rank)
        require_length(2, ends=ends)
        if len(layout) not in (0, along + 1):
            raise OpError(
                f"attribute 'layout' must have {along + 1} entries, the strides before axis {along} and the number of "
                f"elements, or none, but has {len(layout)}"
            )
        if len(held) not in (0, along):
            raise OpError(f"attribute 'held' must have {along} entries or none, but has {len(held)}")
        if table.dtype != np.int64:
            raise OpError(f"operand 'table' must be i64, but is {table}")
        return made

    @staticmethod
    def reference(
        lhs: np.ndarray,
        rhs: np.ndarray,
        table: np.ndarray,
        *,
        axis: int,
        ends: tuple[int, ...],
        layout: tuple[int, ...] = (),
    ) -> np.ndarray:
        """Computes it with numpy."""
        parts = [
            array if end < 0 else np.take(array, np.arange(np.clip(table[end], 0, array.shape[axis])), axis)
            for array, end in zip((lhs, rhs), ends, strict=True)
        ]
        missing = lhs.shape[axis] + rhs.shape[axis] - sum(part.shape[axis] for part in parts)
        shape = [missing if dim == axis % lhs.ndim else size for dim, size in enumerate(lhs.shape)]
        return np.concatenate([*parts, np.zeros(shape, lhs.dtype)], axis)
