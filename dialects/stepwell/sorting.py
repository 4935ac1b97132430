"""Ordering ops: the indices of the greatest or least elements."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ...support.wording import quantity
from ..core import KernelTraits, Op, OpError, attribute, operand, optional_operand, result
from ..specs import size_of
from ..types import TensorSpec, is_float
from .shape import INDEX
from .shapes import require_count


class TopKOp(Op):
    """The indices of the `k` greatest (or least) elements along the last dimension, in order (ONNX TopK).

    Among equal elements the first one comes first. NaN is greater than every number; the two zeros are equal. If `k` is
    the whole extent, this sorts the elements.

    Attributes:
        k: number of elements.
        largest: whether to take the greatest, in descending order; else the least, in ascending order.
        extent: index, in the table of extents, of the value of operand `count`, or -1. It does not change the values.

    ```mlir
    %1 = "stepwell.top_k"(%0) {k = 5 : i64} : (tensor<4x100xf32>) -> tensor<4x5xi64>
    ```
    """

    OPERATION_NAME = "stepwell.top_k"
    KERNEL = KernelTraits("sorting")
    input = operand()
    count = optional_operand("i64, a scalar: elements from this index on come after all others, in their order")
    k = attribute(int)
    largest = attribute(bool, default=True)
    extent = attribute(int, default=-1)
    result = result("i64")

    @staticmethod
    def infer(
        input: TensorSpec, count: TensorSpec | None = None, *, k: int, largest: bool, extent: int = -1
    ) -> TensorSpec:
        """`k` indices per row."""
        require_count(count)
        if not input.rank:
            raise OpError("takes tensors of rank 1 and more, but operand 'input' is a scalar")
        elements = input.shape[-1]
        if k < 0 or (isinstance(elements, int) and k > elements):
            raise OpError(f"cannot take {k} of {quantity(elements, 'element')}")
        return TensorSpec((*input.shape[:-1], k), INDEX)

    @staticmethod
    def reference(
        input: np.ndarray, count: np.ndarray | None = None, *, k: int, largest: bool, extent: int = -1
    ) -> np.ndarray:
        """Stable sort of integers that have the same order as the elements."""
        elements = input.shape[-1]
        sorted_ = elements if count is None else min(max(int(count), 0), elements)
        keys = sort_keys(input[..., :sorted_])
        order = np.argsort(~keys if largest else keys, axis=-1, kind="stable")
        rest = np.broadcast_to(np.arange(sorted_, elements), (*input.shape[:-1], elements - sorted_))
        return np.concatenate([order, rest], -1)[..., :k].astype(INDEX)

    def flops(self) -> int:
        """Number of comparisons of a sort: n log n."""
        return size_of(self.input) * ir.RankedTensorType(self.input.type).shape[-1].bit_length()


def sort_keys(array: np.ndarray) -> np.ndarray:
    """Maps elements to signed integers of the same order: NaN to one integer above all numbers, both zeros to one."""
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
