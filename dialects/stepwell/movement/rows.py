"""Rows of a tensor (its slices along the first dimension), read and written by each iteration of a loop."""

from __future__ import annotations

import math

import numpy as np

from ....support.wording import quantity
from ...core import KernelTraits, Op, OpError, attribute, operand, result
from ...types import TensorSpec, is_integer
from ..shapes import common_dim, may_equal, require_rank, same_dtype


class RowOp(Op):
    """`input[index]`, with the index clipped to the range of rows. Reading a row copies nothing.

    ```mlir
    %2 = "stepwell.row"(%0, %1) : (tensor<10x4x8xf32>, tensor<i64>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.row"
    KERNEL = KernelTraits("movement")
    input = operand("at least rank 1, and not empty")
    index = operand("a scalar integer")
    result = result()

    @staticmethod
    def infer(input: TensorSpec, index: TensorSpec) -> TensorSpec:
        """The input's shape without the first dimension."""
        _check_index(input, index)
        return input.with_shape(input.shape[1:])

    @staticmethod
    def reference(input: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Computes it with numpy."""
        return input[np.clip(index, 0, len(input) - 1)]


class WithRowOp(Op):
    """`input` with `input[index]` replaced by `row`; the index is clipped to the range of rows.

    If a loop carries the input from iteration to iteration and nothing else reads it, the update happens in place.

    ```mlir
    %3 = "stepwell.with_row"(%0, %1, %2) : (tensor<10x4x8xf32>, tensor<4x8xf32>, tensor<i64>) -> tensor<10x4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.with_row"
    KERNEL = KernelTraits("movement")
    input = operand("at least rank 1, and not empty")
    row = operand("the input's shape without the first dimension")
    index = operand("a scalar integer")
    result = result()

    @staticmethod
    def infer(input: TensorSpec, row: TensorSpec, index: TensorSpec) -> TensorSpec:
        """The result is like the input."""
        _check_index(input, index)
        same_dtype(input, row)
        pairs = list(zip(input.shape[1:], row.shape, strict=False))
        if row.rank != input.rank - 1 or not all(may_equal(*pair) for pair in pairs):
            raise OpError(f"operand 'row' must have the shape of a row of {input}, but is {row}")
        return input.with_shape((input.shape[0], *(common_dim(*pair) for pair in pairs)))

    @staticmethod
    def reference(input: np.ndarray, row: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Computes it with numpy."""
        changed = input.copy()
        changed[np.clip(index, 0, len(input) - 1)] = row
        return changed


class TakeRowsOp(Op):
    """The rows of `input` at the indices `places`; its first `leading` dimensions count as one.

    Indices out of range are clipped, as in `gather`.

    ```mlir
    %2 = "stepwell.take_rows"(%0, %1) {leading = 2 : i64, extents = array<i64>}
      : (tensor<4x8x16xf32>, tensor<32xi64>) -> tensor<32x16xf32>
    ```
    """

    OPERATION_NAME = "stepwell.take_rows"
    KERNEL = KernelTraits("movement")
    input = operand()
    places = operand("integers")
    leading = attribute(int, 1)
    extents = attribute(tuple, (), doc="if sizes vary, index in the table of extents per leading dimension")
    result = result("the input's shape with the leading dimensions replaced by those of `places`")

    @staticmethod
    def infer(input: TensorSpec, places: TensorSpec, *, leading: int, extents: tuple[int, ...]) -> TensorSpec:
        """The input's shape with the leading dimensions replaced by those of `places`."""
        if not is_integer(places.dtype):
            raise OpError(f"operand 'places' must be integers, but is {places}")
        if not 1 <= leading <= input.rank or len(extents) not in (0, leading):
            raise OpError(
                f"{quantity(leading, 'dimension')} of {input} with {len(extents)} extents cannot be counted as one"
            )
        if 0 in input.shape[:leading] and 0 not in places.shape:
            raise OpError(f"operand 'input' must have rows, but is {input}")
        return input.with_shape((*places.shape, *input.shape[leading:]))

    @staticmethod
    def reference(input: np.ndarray, places: np.ndarray, *, leading: int, extents: tuple[int, ...]) -> np.ndarray:
        """Computes it with numpy."""
        count = math.prod(input.shape[:leading])
        chosen = np.where(places < 0, places.astype(np.int64) + count, places)
        return np.take(input.reshape(count, *input.shape[leading:]), chosen, 0, mode="clip")


def _check_index(input: TensorSpec, index: TensorSpec) -> None:
    require_rank(0, index=index)
    if not is_integer(index.dtype):
        raise OpError(f"operand 'index' must be an integer, but is {index}")
    if input.rank == 0 or input.shape[0] == 0:
        raise OpError(f"operand 'input' must have rows, but is {input}")
