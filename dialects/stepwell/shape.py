"""Ops on shapes: the extents of a tensor, and tensors built from extents."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...sizes import extrema, ratios
from .. import dims
from ..core import KernelTraits, Op, OpError, Rounding, attribute, operand, result
from ..defined import DEFINED
from ..dims import Dim, Symbolic
from ..specs import sizes_spec
from ..types import TensorSpec, is_float, is_integer, type_name
from .shapes import require_dtype, require_length, require_rank, same_dtype

INDEX = np.dtype(np.int64)


class ShapeOfOp(Op):
    """The extents of a tensor (ONNX Shape).

    ```mlir
    %1 = "stepwell.shape_of"(%0) : (tensor<?x3xf32>) -> tensor<2xi64>
    ```
    """

    OPERATION_NAME = "stepwell.shape_of"
    KERNEL = KernelTraits("movement")
    input = operand()
    result = result("1-D i64, one element per dimension")

    @staticmethod
    def infer(input: TensorSpec) -> TensorSpec:
        """One i64 per dimension; the contents are the extents."""
        if input.is_static:
            return TensorSpec((input.rank,), INDEX, np.array(input.shape, INDEX))
        return TensorSpec((input.rank,), INDEX, None, np.array(input.shape, object))

    @staticmethod
    def reference(input: np.ndarray) -> np.ndarray:
        """Computes it with numpy."""
        return np.array(input.shape, INDEX)


class SizeOfOp(Op):
    """The number of elements of a tensor (ONNX Size).

    ```mlir
    %1 = "stepwell.size_of"(%0) : (tensor<?x3xf32>) -> tensor<i64>
    ```
    """

    OPERATION_NAME = "stepwell.size_of"
    KERNEL = KernelTraits("movement")
    input = operand()
    result = result("a scalar i64")

    @staticmethod
    def infer(input: TensorSpec) -> TensorSpec:
        """A scalar i64, the product of the extents."""
        if input.is_static:
            return TensorSpec((), INDEX, np.array(dims.product(input.shape), INDEX))
        return TensorSpec((), INDEX, None, np.array(dims.product(input.shape), object))

    @staticmethod
    def reference(input: np.ndarray) -> np.ndarray:
        """Computes it with numpy."""
        return np.array(input.size, INDEX)


class FillOp(Op):
    """A tensor of the given extents filled with `value` (ONNX ConstantOfShape).

    ```mlir
    %1 = "stepwell.fill"(%0) {value = dense<0.0> : tensor<f32>} : (tensor<2xi64>) -> tensor<?x?xf32>
    ```
    """

    OPERATION_NAME = "stepwell.fill"
    KERNEL = KernelTraits("movement")
    shape = operand("1-D i64")
    value = attribute(np.ndarray, doc="one element, whose type is the result's")
    result = result()

    @staticmethod
    def infer(shape: TensorSpec, *, value: np.ndarray) -> TensorSpec:
        """The extents that the operand holds if it is constant, else unknown ones."""
        if value.size != 1:
            raise OpError(f"attribute 'value' must have one element, but has {value.size}")
        extents = shape_from(shape)
        if any(isinstance(dim, int) and dim < 0 for dim in extents):
            raise OpError(f"operand 'shape' must not be negative, but is {', '.join(map(str, extents))}")
        return TensorSpec(extents, value.dtype)

    @staticmethod
    def reference(shape: np.ndarray, *, value: np.ndarray) -> np.ndarray:
        """Computes it with numpy."""
        return np.full(tuple(shape), value.reshape(()), value.dtype)


class BorderOp(Op):
    """A tensor whose outermost `low` and `high` elements along each dimension are `value`; the others are undefined.

    The op that produces the interior writes it in place; together they form a padded tensor.

    ```mlir
    %0 = "stepwell.border"() {shape = array<i64: 6, 8>, low = array<i64: 1, 1>, high = array<i64: 1, 0>,
        value = dense<0.0> : tensor<f32>} : () -> tensor<6x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.border"
    KERNEL = KernelTraits("movement", works_on_views=True)
    shape = attribute(tuple)
    low = attribute(tuple)
    high = attribute(tuple)
    value = attribute(np.ndarray, doc="one element, whose type is the result's")
    result = result()

    @staticmethod
    def infer(*, shape: tuple[int, ...], low: tuple[int, ...], high: tuple[int, ...], value: np.ndarray) -> TensorSpec:
        """The extents `shape`, which include the border."""
        require_length(len(shape), low=low, high=high)
        if value.size != 1:
            raise OpError(f"attribute 'value' must have one element, but has {value.size}")
        if min((*low, *high), default=0) < 0:
            raise OpError("a border must not be negative")
        for axis, (before, extent, after) in enumerate(zip(low, shape, high, strict=True)):
            if before + after > extent:
                raise OpError(f"has a border of {before + after} elements along axis {axis}, whose extent is {extent}")
        return TensorSpec(shape, value.dtype)

    @staticmethod
    def reference(
        *, shape: tuple[int, ...], low: tuple[int, ...], high: tuple[int, ...], value: np.ndarray
    ) -> np.ndarray:
        """Computes it with numpy; floats in the interior are NaN so that reading them does not go unnoticed."""
        array = np.full(shape, value.reshape(()), value.dtype)
        inside = tuple(slice(before, extent - after) for before, extent, after in zip(low, shape, high, strict=True))
        array[inside] = np.nan if value.dtype.kind == "f" else 0
        return array


@DEFINED.attach(BorderOp)
def _outside(op: BorderOp, operands: Sequence[np.ndarray], result: np.ndarray) -> np.ndarray:
    is_outside = np.ones(result.shape, bool)
    is_outside[tuple(slice(low, size - high) for low, size, high in zip(op.low, op.shape, op.high, strict=True))] = 0
    return is_outside


class SizesOp(Op):
    """A small tensor whose elements are expressions over symbolic dimensions: what a model computes of shapes.

    Elements of floating point are expressions divided by a number, as in `n / 2`. The op has no reference: it is
    replaced once the sizes are known, or by numbers that are read during a call.

    ```mlir
    %0 = "stepwell.sizes"() {values = ["n", 8, "n // 2"], shape = array<i64: 3>, dtype = i64} : () -> tensor<3xi64>
    %1 = "stepwell.sizes"() {values = ["n"], divisor = 2, shape = array<i64>, dtype = f32} : () -> tensor<f32>
    ```
    """

    OPERATION_NAME = "stepwell.sizes"
    ROUNDING = Rounding.ROUNDED
    values = attribute(tuple, doc="the elements in row-major order")
    shape = attribute(tuple)
    dtype = attribute(np.dtype)
    divisor = attribute(int, default=1, doc="the number that all elements are divided by; 1 for integers")
    result = result()

    @staticmethod
    def infer(*, values: tuple[Dim, ...], shape: tuple[int, ...], dtype: np.dtype, divisor: int) -> TensorSpec:
        """The declared shape and element type, and the expressions as contents."""
        if not is_integer(dtype) and not is_float(dtype):
            raise OpError(f"attribute 'dtype' must be a type of numbers, but is {type_name(dtype)}")
        if divisor < 1 or (divisor > 1 and is_integer(dtype)):
            raise OpError(f"attribute 'divisor' must be positive, and 1 for integers, but is {divisor}")
        if min(shape, default=0) < 0 or math.prod(shape) != len(values):
            raise OpError(f"attribute 'values' must have an entry for each element, but has {len(values)}")
        return sizes_spec(values, divisor, shape, dtype)

    @classmethod
    def of_contents(cls, contents: np.ndarray, dtype: np.dtype) -> SizesOp:
        """Creates the op for an array of numbers and expressions; for floats, of ratios."""
        if not is_float(dtype):
            return cls(values=tuple(contents.flat), shape=contents.shape, dtype=dtype)
        values, divisor = ratios.over_one_divisor(contents.flat)
        return cls(values=tuple(values), divisor=divisor, shape=contents.shape, dtype=dtype)


class RangeOp(Op):
    """The numbers from `start` up to and excluding `limit`, `delta` apart (ONNX Range).

    ```mlir
    %3 = "stepwell.range"(%0, %1, %2) : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
    ```
    """

    OPERATION_NAME = "stepwell.range"
    KERNEL = KernelTraits("movement")
    start = operand("scalar")
    limit = operand("scalar")
    delta = operand("scalar, not 0")
    result = result("1-D")

    @staticmethod
    def infer(start: TensorSpec, limit: TensorSpec, delta: TensorSpec) -> TensorSpec:
        """`max(ceil((limit - start) / delta), 0)` elements if all three are constant, else an unknown number."""
        same_dtype(start, limit, delta)
        require_rank(0, start=start, limit=limit, delta=delta)
        if start.value is None or limit.value is None or delta.value is None:
            return start.with_shape((_symbolic_length(start, limit, delta),))
        if delta.value == 0:
            raise OpError("operand 'delta' must not be 0")
        return start.with_shape((_range_length(start.value, limit.value, delta.value),))

    @staticmethod
    def reference(start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> np.ndarray:
        """Computes it with numpy, each element on its own so that errors do not accumulate."""
        count = _range_length(start, limit, delta)
        return (start + np.arange(count).astype(start.dtype) * delta).astype(start.dtype)


def _range_length(start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> int:
    if start.dtype.kind in "iu":
        return max(-((int(start) - int(limit)) // int(delta)), 0)
    return max(math.ceil((float(limit) - float(start)) / float(delta)), 0)


def _symbolic_length(start: TensorSpec, limit: TensorSpec, delta: TensorSpec) -> Dim:
    if start.contents is None or limit.contents is None or delta.value is None:
        return dims.unknown()
    if delta.value == 0:
        raise OpError("operand 'delta' must not be 0")
    arrays = start.contents, limit.contents, delta.value
    if any(array.dtype != object and not np.isfinite(array.astype(np.float64)) for array in arrays):
        return dims.unknown()
    first, last, step = (ratios.entry(array.item()) for array in arrays)
    if not first.is_dyadic or not last.is_dyadic:  # rounded, and so may be the length
        return dims.unknown()
    return extrema.greatest(((last - first).over(step).ceil, 0))


def shape_from(spec: TensorSpec, name: str = "shape") -> tuple[Dim, ...]:
    """The extents that a 1-D i64 operand holds: its contents if they are known, else fresh unknowns.

    Raises:
        OpError: the operand is not a 1-D i64 tensor, or its length is unknown.
    """
    require_dtype(INDEX, **{name: spec})
    require_rank(1, **{name: spec})
    if spec.contents is not None:
        return tuple(entry if isinstance(entry, Symbolic) else int(entry) for entry in spec.contents)
    count = spec.shape[0]
    if not isinstance(count, int):
        raise OpError(f"operand '{name}' must have a static length, for the rank of the result, but is {spec}")
    return tuple(dims.unknown() for _ in range(count))
