"""Ordering: where the greatest or least elements are."""

from __future__ import annotations

import numpy as np

from ..core import Op, OpError, attribute, operand, result
from ..types import TensorSpec, is_float
from .shape import INDEX


class TopKOp(Op):
    """The indices of the `k` greatest (or least) elements along the last dimension, in order (ONNX TopK).

    Of equal elements the first one comes first. NaN is greater than every number; the two zeros are equal. With `k` the
    whole extent the elements are sorted.

    Attributes:
        k: how many.
        largest: whether the greatest are meant, from the greatest down; else the least, from the least up.

    ```mlir
    %1 = "stepwell.top_k"(%0) {k = 5 : i64} : (tensor<4x100xf32>) -> tensor<4x5xi64>
    ```
    """

    OPERATION_NAME = "stepwell.top_k"
    input = operand()
    k = attribute(int)
    largest = attribute(bool, default=True)
    result = result("i64")

    @staticmethod
    def infer(input: TensorSpec, *, k: int, largest: bool) -> TensorSpec:
        """`k` indices per row."""
        if not input.rank:
            raise OpError("takes tensors of rank 1 and more, but operand 'input' is a scalar")
        extent = input.shape[-1]
        if k < 0 or (isinstance(extent, int) and k > extent):
            raise OpError(f"cannot take {k} of {extent} elements")
        return TensorSpec((*input.shape[:-1], k), INDEX)

    @staticmethod
    def reference(input: np.ndarray, *, k: int, largest: bool) -> np.ndarray:
        """Sorts numbers whose order is that of the elements, stably."""
        keys = sort_keys(input)
        return np.argsort(~keys if largest else keys, axis=-1, kind="stable")[..., :k].astype(INDEX)


def sort_keys(array: np.ndarray) -> np.ndarray:
    """Signed integers in the order of the elements, one NaN above all numbers and one zero."""
    if array.dtype == np.bool_:
        return array.astype(np.int8)
    if array.dtype.kind == "u":
        info = np.iinfo(array.dtype)
        return (array ^ array.dtype.type(info.max // 2 + 1)).view(f"i{info.bits // 8}")
    if not is_float(array.dtype):
        return array
    wide = np.asarray(array, np.float64 if array.dtype == np.float64 else np.float32) + 0.0
    bits = np.where(np.isnan(wide), np.asarray(np.nan, wide.dtype), wide).view(f"i{wide.itemsize}")
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
