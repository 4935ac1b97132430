"""Ops that keep some elements, whose number depends on data.

The type of a result has room for all elements. Those that are kept come first, and the rest is undefined: a program
returns the number of kept elements too, and the runtime crops the result to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core import KernelTraits, Op, OpError, attribute, operand, result
from ..defined import DEFINED, first_of
from ..dims import product
from ..specs import size_of
from ..types import TensorSpec
from .shape import INDEX
from .shapes import normalize_axis, require_dtype, require_rank


class NonZeroOp(Op):
    """The coordinates of the elements that are true, in row-major order (ONNX NonZero).

    Column `i` of the result holds the coordinates of the `i`-th one. Columns after the last one are undefined.

    ```mlir
    %1 = "stepwell.nonzero"(%0) : (tensor<4x100xi1>) -> tensor<2x400xi64>
    ```
    """

    OPERATION_NAME = "stepwell.nonzero"
    KERNEL = KernelTraits("selection")
    input = operand("i1")
    result = result("i64: a row per dimension, a column per element of the input")

    @staticmethod
    def infer(input: TensorSpec) -> TensorSpec:
        """A column per element."""
        require_dtype(np.bool_, input=input)
        return TensorSpec((input.rank, product(input.shape)), INDEX)

    @staticmethod
    def reference(input: np.ndarray) -> np.ndarray:
        """Computes it with numpy; undefined columns are 0."""
        found = np.zeros((input.ndim, input.size), INDEX)
        if input.ndim:
            places = np.stack(np.nonzero(input))
            found[:, : places.shape[1]] = places
        return found

    def flops(self) -> int:
        """One comparison per element."""
        return size_of(self.input)


@DEFINED.attach(NonZeroOp)
def _found(op: NonZeroOp, operands: Sequence[np.ndarray], result: np.ndarray) -> np.ndarray:
    return first_of(int(np.count_nonzero(operands[0])), result.shape, 1)


class CompressOp(Op):
    """The slices of `input` along `axis` whose condition is true (ONNX Compress); slices after them are undefined.

    Attributes:
        axis: the dimension along which the slices lie.

    ```mlir
    %2 = "stepwell.compress"(%0, %1) {axis = 0 : i64} : (tensor<8x4xf32>, tensor<8xi1>) -> tensor<8x4xf32>
    ```
    """

    OPERATION_NAME = "stepwell.compress"
    KERNEL = KernelTraits("selection")
    input = operand()
    condition = operand("1-D i1: a condition for each slice, or for the first ones; the others are dropped")
    axis = attribute(int)
    result = result()

    @staticmethod
    def infer(input: TensorSpec, condition: TensorSpec, *, axis: int) -> TensorSpec:
        """The result has room for all slices."""
        require_dtype(np.bool_, condition=condition)
        require_rank(1, condition=condition)
        extent, length = input.shape[normalize_axis(axis, input.rank)], condition.shape[0]
        if isinstance(extent, int) and isinstance(length, int) and length > extent:
            raise OpError(f"operand 'condition' must have at most {extent} elements, but is {condition}")
        return input.with_shape(input.shape)  # without its contents

    @staticmethod
    def reference(input: np.ndarray, condition: np.ndarray, *, axis: int) -> np.ndarray:
        """Computes it with numpy; undefined slices are 0."""
        found = np.zeros_like(input)
        kept = np.moveaxis(np.compress(condition, input, axis), axis, 0)
        np.moveaxis(found, axis, 0)[: len(kept)] = kept
        return found


@DEFINED.attach(CompressOp)
def _kept(op: CompressOp, operands: Sequence[np.ndarray], result: np.ndarray) -> np.ndarray:
    return first_of(int(np.count_nonzero(operands[1])), result.shape, normalize_axis(op.axis, result.ndim))
