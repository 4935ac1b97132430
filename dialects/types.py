"""Element types: the only mapping between MLIR's types, numpy's dtypes and the names that users read."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from mlir import ir

from ..support.errors import StepwellError
from . import dims
from .dims import DimShape

_MLIR_NAMES: dict[np.dtype, str] = {
    np.dtype(np.float64): "f64",
    np.dtype(np.float32): "f32",
    np.dtype(np.float16): "f16",
    np.dtype(ml_dtypes.bfloat16): "bf16",
    np.dtype(np.int64): "i64",
    np.dtype(np.int32): "i32",
    np.dtype(np.int16): "i16",
    np.dtype(np.int8): "i8",
    np.dtype(np.uint64): "ui64",
    np.dtype(np.uint32): "ui32",
    np.dtype(np.uint16): "ui16",
    np.dtype(np.uint8): "ui8",
    np.dtype(np.bool_): "i1",
    np.dtype(ml_dtypes.int4): "i4",
    np.dtype(ml_dtypes.int2): "i2",
    np.dtype(ml_dtypes.uint4): "ui4",
    np.dtype(ml_dtypes.uint2): "ui2",
    np.dtype(ml_dtypes.float8_e4m3fn): "f8E4M3FN",
    np.dtype(ml_dtypes.float8_e4m3fnuz): "f8E4M3FNUZ",
    np.dtype(ml_dtypes.float8_e5m2): "f8E5M2",
    np.dtype(ml_dtypes.float8_e5m2fnuz): "f8E5M2FNUZ",
    np.dtype(ml_dtypes.float8_e8m0fnu): "f8E8M0FNU",
    np.dtype(ml_dtypes.float4_e2m1fn): "f4E2M1FN",
}
_MLIR_TYPES: dict[np.dtype, Callable[[], ir.Type]] = {
    np.dtype(np.float64): ir.F64Type.get,
    np.dtype(np.float32): ir.F32Type.get,
    np.dtype(np.float16): ir.F16Type.get,
    np.dtype(ml_dtypes.bfloat16): ir.BF16Type.get,
    np.dtype(np.bool_): lambda: ir.IntegerType.get_signless(1),
    **{np.dtype(f"int{width}"): functools.partial(ir.IntegerType.get_signless, width) for width in (8, 16, 32, 64)},
    **{np.dtype(f"uint{width}"): functools.partial(ir.IntegerType.get_unsigned, width) for width in (8, 16, 32, 64)},
    np.dtype(ml_dtypes.int4): lambda: ir.IntegerType.get_signless(4),
    np.dtype(ml_dtypes.int2): lambda: ir.IntegerType.get_signless(2),
    np.dtype(ml_dtypes.uint4): lambda: ir.IntegerType.get_unsigned(4),
    np.dtype(ml_dtypes.uint2): lambda: ir.IntegerType.get_unsigned(2),
    np.dtype(ml_dtypes.float8_e4m3fn): ir.Float8E4M3FNType.get,
    np.dtype(ml_dtypes.float8_e4m3fnuz): ir.Float8E4M3FNUZType.get,
    np.dtype(ml_dtypes.float8_e5m2): ir.Float8E5M2Type.get,
    np.dtype(ml_dtypes.float8_e5m2fnuz): ir.Float8E5M2FNUZType.get,
    np.dtype(ml_dtypes.float8_e8m0fnu): ir.Float8E8M0FNUType.get,
    np.dtype(ml_dtypes.float4_e2m1fn): ir.Float4E2M1FNType.get,
}
_FLOATS = frozenset(dtype for dtype, name in _MLIR_NAMES.items() if name.startswith(("f", "bf")))
_WIDER_INTEGERS: dict[np.dtype, np.dtype] = {
    np.dtype(ml_dtypes.int4): np.dtype(np.int8),
    np.dtype(ml_dtypes.int2): np.dtype(np.int8),
    np.dtype(ml_dtypes.uint4): np.dtype(np.uint8),
    np.dtype(ml_dtypes.uint2): np.dtype(np.uint8),
}
NATIVE_DTYPES = frozenset(_MLIR_TYPES)
"""The numpy element types of tensors that code can be compiled for."""
_DTYPES = {name: dtype for dtype, name in _MLIR_NAMES.items()}
# For these the class, or the width of a signless integer, is enough, and is cheaper to read than the name.
_CLASSES: dict[type, np.dtype] = {ir.F64Type: np.dtype(np.float64), ir.F32Type: np.dtype(np.float32)}
_SIGNLESS: dict[int, np.dtype] = {
    1: np.dtype(np.bool_),
    **{width: np.dtype(f"int{width}") for width in (8, 16, 32, 64)},
}
_DYNAMIC = ir.ShapedType.get_dynamic_size()


class ElementTypeError(StepwellError, TypeError):
    """An MLIR type cannot be the element type of a tensor of this dialect."""


@dataclass(frozen=True)
class TensorSpec:
    """Compile-time knowledge about a tensor.

    Attributes:
        shape: one entry per dimension, an `int` or a symbolic expression.
        dtype: the numpy element type.
        value: the contents, if they are a (small) constant.
        symbols: the contents, if they are not constant but expressions over sizes, as an array of objects.
    """

    shape: DimShape
    dtype: np.dtype
    value: np.ndarray | None = None
    symbols: np.ndarray | None = field(default=None, compare=False)

    @property
    def contents(self) -> np.ndarray | None:
        """The contents, as numbers or expressions; None if they are not known."""
        return self.symbols if self.value is None else self.value

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """Returns whether every dimension is a number."""
        return dims.is_static(self.shape)

    def with_shape(self, shape: DimShape) -> TensorSpec:
        """A tensor of the same element type and another shape, contents unknown."""
        return TensorSpec(tuple(shape), self.dtype)

    def with_dtype(self, dtype: np.dtype | type) -> TensorSpec:
        """A tensor of the same shape and another element type, contents unknown."""
        return TensorSpec(self.shape, np.dtype(dtype))

    def __str__(self) -> str:
        return "x".join([*map(_extent, self.shape), type_name(self.dtype)])


def _extent(dim: dims.Dim) -> str:
    text = dims.text(dim)
    return f"({text})" if " " in text else text


def element_type(dtype: np.dtype | type) -> ir.Type:
    """The MLIR element type of a numpy dtype, in the current context."""
    return _MLIR_TYPES[np.dtype(dtype)]()


def numpy_dtype(element: ir.Type) -> np.dtype:
    """The numpy dtype of an MLIR element type.

    Raises:
        ElementTypeError: tensors of this dialect cannot have this element type.
    """
    if isinstance(element, ir.IntegerType) and element.is_signless and element.width in _SIGNLESS:
        return _SIGNLESS[element.width]
    known = _CLASSES.get(type(element)) or _DTYPES.get(str(element))
    if known is None:
        raise ElementTypeError(f"element type {element} is not supported: expected one of {', '.join(_DTYPES)}")
    return known


def tensor_type(spec: TensorSpec) -> ir.RankedTensorType:
    """The MLIR type of a tensor: dimensions that are not numbers become `?`, and are spelt out in the encoding.

    A tensor of n rows and 8 columns is a tensor<?x8xf32, ["n", 8]>.
    """
    if spec.is_static:
        return ir.RankedTensorType.get(list(dims.numbers(spec.shape)), element_type(spec.dtype))
    shape = [dim if isinstance(dim, int) else _DYNAMIC for dim in spec.shape]
    is_named = any(not isinstance(dim, int) and dims.is_known(dim) for dim in spec.shape)
    return ir.RankedTensorType.get(shape, element_type(spec.dtype), dims_attribute(spec.shape) if is_named else None)


def dims_attribute(shape: DimShape) -> ir.ArrayAttr:
    """A shape as an attribute: integers, expressions as strings, and "?" for an unknown dimension."""
    i64 = ir.IntegerType.get_signless(64)
    return ir.ArrayAttr.get(
        [
            ir.IntegerAttr.get(i64, dim)
            if isinstance(dim, int)
            else ir.StringAttr.get(str(dim) if dims.is_known(dim) else _UNKNOWN)
            for dim in shape
        ]
    )


def shape_of_type(tensor: ir.Type) -> DimShape:
    """The shape that an MLIR tensor type gives; every `?` that its encoding does not name becomes a fresh symbol.

    Raises:
        ElementTypeError: the encoding names no dimensions, or others than the type has.
    """
    ranked = ir.RankedTensorType(tensor)
    shape = tuple(ranked.shape)
    if _DYNAMIC not in shape:
        return shape
    if ranked.encoding is None:
        return tuple([dims.unknown() if size == _DYNAMIC else size for size in shape])
    try:
        named = [_dim_of(entry) for entry in ir.ArrayAttr(ranked.encoding)]
        if [dim for dim in named if isinstance(dim, int)] != [size for size in shape if size != _DYNAMIC]:
            raise ValueError("it names other dimensions")
        return tuple([size if size != _DYNAMIC else dim for size, dim in zip(shape, named, strict=True)])
    except ValueError as error:
        raise ElementTypeError(
            f'the encoding of {tensor} must list its dimensions, as in tensor<?x8xf32, ["n", 8]>: {error}'
        ) from error


def _dim_of(entry: ir.Attribute) -> dims.Dim:
    if isinstance(entry, ir.IntegerAttr):
        return entry.value
    text = ir.StringAttr(entry).value
    return dims.unknown() if text == _UNKNOWN else dims.parsed(text)


_UNKNOWN = "?"


def spec_of_type(tensor: ir.Type) -> TensorSpec:
    """The spec that an MLIR tensor type gives."""
    return TensorSpec(shape_of_type(tensor), numpy_dtype(ir.RankedTensorType(tensor).element_type))


def type_name(dtype: np.dtype | type) -> str:
    """The name of an element type in MLIR, or numpy's name if MLIR has no such type."""
    return _MLIR_NAMES.get(np.dtype(dtype), str(np.dtype(dtype)))


def is_float(dtype: np.dtype | type) -> bool:
    """Returns whether a dtype is floating point; numpy does not count most types of ml_dtypes as such."""
    return np.dtype(dtype) in _FLOATS


def is_tiny_float(dtype: np.dtype | type) -> bool:
    """Returns whether a dtype is a float of eight or four bits."""
    return is_float(dtype) and np.dtype(dtype).itemsize == 1


def is_integer(dtype: np.dtype | type) -> bool:
    """Returns whether a dtype is a signed or unsigned integer; bool is not."""
    return np.dtype(dtype).kind in "iu" or np.dtype(dtype) in _WIDER_INTEGERS


def byte_integer(dtype: np.dtype | type) -> np.dtype:
    """The dtype in which integers narrower than a byte are computed; any other dtype is returned unchanged."""
    return _WIDER_INTEGERS.get(np.dtype(dtype), np.dtype(dtype))


def integer_bits(dtype: np.dtype | type) -> int:
    """The number of bits of an integer dtype; a byte may hold several such integers."""
    return int(ml_dtypes.iinfo(np.dtype(dtype)).bits)


def dense(array: np.ndarray) -> ir.DenseElementsAttr:
    """`array` as a dense attribute; one repeated value is stored once (a splat)."""
    if array.size > 1 and not any(array.strides):
        # One element, broadcast: nothing of the size of the shape is allocated.
        return splat(array.flat[0], array.shape)
    buffer: Any = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype == np.bool_:
        return ir.DenseElementsAttr.get(buffer)
    # The bindings do not support buffers of ml_dtypes' one-byte types, but accept their bytes.
    raw = buffer.view(np.uint8) if array.dtype.itemsize == 1 else buffer
    return ir.DenseElementsAttr.get(raw, type=ir.RankedTensorType.get(list(array.shape), element_type(array.dtype)))


def splat(value: np.generic, shape: tuple[int, ...]) -> ir.DenseElementsAttr:
    """A dense attribute of `shape` in which every element is `value`; its size does not depend on the shape."""
    kind = ir.RankedTensorType.get(list(shape), element_type(value.dtype))
    one = ir.BoolAttr.get(bool(value)) if value.dtype == np.bool_ else dense(np.asarray(value)).get_splat_value()
    return ir.DenseElementsAttr.get_splat(kind, one)


def array_of(attribute: ir.Attribute) -> np.ndarray:
    """The contents of a dense attribute; a splat comes back as a read-only broadcast of one element."""
    kind = ir.RankedTensorType(ir.DenseElementsAttr(attribute).type)
    dtype, shape = numpy_dtype(kind.element_type), tuple(kind.shape)
    if dtype in _ML_DTYPES:
        return _parse_elements(str(attribute), dtype, shape)
    is_splat = ir.DenseElementsAttr(attribute).is_splat
    if is_splat and dtype == np.bool_:
        # For a bool splat the bindings would read one bit per element, but only one bit is stored.
        value = ir.BoolAttr(ir.DenseElementsAttr(attribute).get_splat_value()).value
        return repeated(np.bool_(value), shape) if math.prod(shape) else np.empty(shape, dtype)
    array = np.array(attribute, dtype=dtype, copy=False)
    return repeated(array.flat[0], shape) if is_splat and shape and array.size else array


def repeated(element: np.generic, shape: tuple[int, ...]) -> np.ndarray:
    """A read-only array of `shape` that repeats one element: like `np.broadcast_to`, in a fraction of its time."""
    return np.ndarray(shape, element.dtype, element.tobytes(), strides=(0,) * len(shape))


_ML_DTYPES = frozenset(dtype for dtype in _MLIR_NAMES if hasattr(ml_dtypes, dtype.name))


def _parse_elements(text: str, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Reads the printed form, for element types that the bindings' buffer protocol does not support."""
    body = text[text.index("<") + 1 : text.rindex("> :")]
    if body.startswith('"0x'):
        return np.frombuffer(bytes.fromhex(body[3:-1]), dtype).reshape(shape)
    values = np.array([_parse_element(item, dtype) for item in re.findall(r"[-+.\w]+", body)], dtype)
    return values.reshape(shape) if len(values) != 1 else np.broadcast_to(values[0], shape)


def _parse_element(text: str, dtype: np.dtype) -> np.ndarray:
    """Parses one element: a decimal number, or its bits in hexadecimal if no decimal form exists (infinities, NaN)."""
    if text.startswith("0x"):
        return np.array(int(text, 16), f"u{dtype.itemsize}").view(dtype)
    return np.array(float(text)).astype(dtype)
