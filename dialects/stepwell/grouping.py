"""Equal rows: their order, the number of each group of them, and facts about groups (ONNX Unique)."""

from __future__ import annotations

import numpy as np

from ..core import KernelTraits, Op, OpError, attribute, operand, result
from ..specs import size_of
from ..types import TensorSpec, is_float
from .shape import INDEX
from .shapes import require_dtype, require_rank, require_shape
from .sorting import sort_keys


class SortRowsOp(Op):
    """The indices that sort the rows of a matrix in lexicographic order; equal rows stay in order.

    NaN is greater than every number; the two zeros are equal.

    ```mlir
    %1 = "stepwell.sort_rows"(%0) : (tensor<100x4xf32>) -> tensor<100xi64>
    ```
    """

    OPERATION_NAME = "stepwell.sort_rows"
    KERNEL = KernelTraits("sorting")
    input = operand("of rank 2")
    result = result("i64 [row]")

    @staticmethod
    def infer(input: TensorSpec) -> TensorSpec:
        """An index per row."""
        require_rank(2, input=input)
        return TensorSpec(input.shape[:1], INDEX)

    @staticmethod
    def reference(input: np.ndarray) -> np.ndarray:
        """Sorts by the columns from the last one to the first, stably."""
        order, keys = np.arange(len(input)), sort_keys(input)
        for column in keys.T[::-1]:
            order = order[np.argsort(column[order], kind="stable")]
        return order.astype(INDEX)

    def flops(self) -> int:
        """Number of comparisons of a sort: n log n."""
        return size_of(self.result) * size_of(self.result).bit_length()


class NumberGroupsOp(Op):
    """The number of the group of equal elements, or rows, to which each one belongs.

    The two zeros are equal. NaN is equal to NaN among elements, but not in rows, as in numpy.

    Attributes:
        is_sorted: whether groups are numbered in ascending order; else in the order in which they first occur.

    ```mlir
    %2 = "stepwell.number_groups"(%0, %1) {is_sorted = true} : (tensor<100xf32>, tensor<100xi64>) -> tensor<100xi64>
    ```
    """

    OPERATION_NAME = "stepwell.number_groups"
    KERNEL = KernelTraits("sorting")
    input = operand("of rank 1: elements; of rank 2: rows")
    order = operand("i64: the indices that sort these in ascending order, equal ones in their order")
    is_sorted = attribute(bool, default=True)
    result = result("i64, an element for each element or row")

    @staticmethod
    def infer(input: TensorSpec, order: TensorSpec, *, is_sorted: bool) -> TensorSpec:
        """A number per element or row."""
        require_dtype(INDEX, order=order)
        if input.rank not in (1, 2):
            raise OpError(f"operand 'input' must have rank 1 or 2, but is {input}")
        require_shape(input.shape[:1], order=order)
        return TensorSpec(input.shape[:1], INDEX)

    @staticmethod
    def reference(input: np.ndarray, order: np.ndarray, *, is_sorted: bool) -> np.ndarray:
        """Counts the changes along the order."""
        numbers = np.zeros(len(input), INDEX)
        if not len(input):
            return numbers
        inside = np.clip(np.where(order < 0, order + len(input), order), 0, len(input) - 1)
        if input.ndim == 1:
            keys = sort_keys(input)[inside]
            differs = keys[1:] != keys[:-1]
        else:
            wide = input.astype(np.float32) if is_float(input.dtype) and input.dtype.itemsize < 4 else input
            differs = (wide[inside[1:]] != wide[inside[:-1]]).any(axis=1)
        numbers[inside] = np.concatenate([[0], np.cumsum(differs)])
        if is_sorted:
            return numbers
        _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[inverse].astype(INDEX)

    def flops(self) -> int:
        """One comparison per element."""
        return size_of(self.input)


class SummarizeGroupsOp(Op):
    """A fact about each group: the index of its first member, or the number of its members; 0 for further numbers.

    Attributes:
        fact: "first" or "size".

    ```mlir
    %1 = "stepwell.summarize_groups"(%0) {fact = "size"} : (tensor<100xi64>) -> tensor<100xi64>
    ```
    """

    OPERATION_NAME = "stepwell.summarize_groups"
    KERNEL = KernelTraits("sorting")
    groups = operand("1-D i64: the number of each member's group; members with other numbers than indices do not count")
    fact = attribute(str, choices=("first", "size"))
    result = result("i64, an element for each possible group")

    @staticmethod
    def infer(groups: TensorSpec, *, fact: str) -> TensorSpec:
        """There are at most as many groups as members."""
        require_dtype(INDEX, groups=groups)
        require_rank(1, groups=groups)
        return groups

    @staticmethod
    def reference(groups: np.ndarray, *, fact: str) -> np.ndarray:
        """Visits the members from the last one to the first."""
        found = np.zeros_like(groups)
        for member in reversed(range(len(groups))):
            if 0 <= groups[member] < len(groups):
                found[groups[member]] = member if fact == "first" else found[groups[member]] + 1
        return found
