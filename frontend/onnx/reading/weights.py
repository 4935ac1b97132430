"""Stored tensors as numpy arrays, checked against their declared sizes before anything is allocated for them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from ....dialects.dims import MAX_RANK
from ....support.whole_numbers import MOST_DIGITS, is_whole
from ...errors import ModelError
from .model import element_dtype

_TYPED_FIELDS: dict[int, str] = {
    onnx.TensorProto.FLOAT: "float_data",
    onnx.TensorProto.DOUBLE: "double_data",
    onnx.TensorProto.INT64: "int64_data",
    onnx.TensorProto.UINT64: "uint64_data",
    onnx.TensorProto.UINT32: "uint64_data",
}
# Elements narrower than a byte are packed into bytes, even if each byte is stored as an int32.
_PACKED_BITS: dict[int, int] = {
    onnx.TensorProto.INT4: 4,
    onnx.TensorProto.UINT4: 4,
    onnx.TensorProto.FLOAT4E2M1: 4,
    onnx.TensorProto.INT2: 2,
    onnx.TensorProto.UINT2: 2,
}


def tensor_array(tensor: onnx.TensorProto, folder: Path | None) -> np.ndarray:
    """The contents of a stored tensor, read-only: if possible a view of the file's bytes or of the external file's.

    Args:
        tensor: the stored tensor.
        folder: the model's folder, outside which external data is not read; None if there is no folder.

    Raises:
        ModelError: type, shape and amount of data do not match, or the external data is missing or outside the folder.
    """
    what = f"tensor '{tensor.name}'" if tensor.name else "a tensor"
    dtype, shape = element_dtype(tensor.data_type, what), tuple(tensor.dims)
    if len(shape) > MAX_RANK or any(dim < 0 for dim in shape):
        raise ModelError(f"{what} has the invalid shape {list(shape)}")
    if tensor.HasField("segment"):
        raise ModelError(f"{what} is stored in segments, which is not supported")
    array = _stored(tensor, what, dtype, shape, folder)
    array.flags.writeable = False
    return array


def _stored(
    tensor: onnx.TensorProto, what: str, dtype: np.dtype, shape: tuple[int, ...], folder: Path | None
) -> np.ndarray:
    bits = _PACKED_BITS.get(tensor.data_type)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        data = external_bytes(tensor, folder)
        return _view(data, dtype, shape) if bits is None else _unpacked(data, dtype, shape, bits)
    if tensor.HasField("raw_data"):
        data = np.frombuffer(tensor.raw_data, np.uint8)
        _check_size(what, shape, dtype, len(data), _stored_bytes(shape, dtype, bits), "bytes")
        return _view(data, dtype, shape) if bits is None else _unpacked(data, dtype, shape, bits)
    field = _TYPED_FIELDS.get(tensor.data_type, "int32_data")
    needed = math.prod(shape) if bits is None else _stored_bytes(shape, dtype, bits)
    _check_size(what, shape, dtype, len(getattr(tensor, field)), needed, "elements")
    return numpy_helper.to_array(tensor)


def _stored_bytes(shape: tuple[int, ...], dtype: np.dtype, bits: int | None) -> int:
    return math.prod(shape) * dtype.itemsize if bits is None else -(-math.prod(shape) * bits // 8)


def _unpacked(data: np.ndarray, dtype: np.dtype, shape: tuple[int, ...], bits: int) -> np.ndarray:
    """Unpacks elements that share bytes into one byte each; the first one is in the lowest bits."""
    parts = np.stack([data >> shift & ((1 << bits) - 1) for shift in range(0, 8, bits)], axis=-1)
    return parts.reshape(-1)[: math.prod(shape)].view(dtype).reshape(shape)


def external_bytes(tensor: onnx.TensorProto, folder: Path | None) -> np.ndarray:
    """The data of a tensor in a file beside the model, mapped, read-only.

    Raises:
        ModelError: the file is missing or outside the folder, or its length does not match type and shape.
    """
    what = f"tensor '{tensor.name}'" if tensor.name else "a tensor"
    dtype, shape = element_dtype(tensor.data_type, what), tuple(tensor.dims)
    entries = {entry.key: entry.value for entry in tensor.external_data}
    path = _external_path(entries.get("location", ""), what, folder)
    size = path.stat().st_size
    needed = _stored_bytes(shape, dtype, _PACKED_BITS.get(tensor.data_type))
    offset = _number(entries.get("offset", "0"), "offset", what)
    length = _number(entries["length"], "length", what) if "length" in entries else needed
    _check_size(what, shape, dtype, length, needed, "bytes")
    if offset + length > size:
        raise ModelError(f"{what} ends at byte {offset + length} of '{path.name}', which has only {size}")
    if needed == 0:
        return np.empty(0, np.uint8)
    return np.memmap(path, np.uint8, mode="r", offset=offset, shape=(needed,))


def _view(data: np.ndarray, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Views the bytes as elements; a byte that is neither 0 nor 1 is true, as in C."""
    return (data != 0).reshape(shape) if dtype == np.bool_ else data.view(dtype).reshape(shape)


def _external_path(location: str, what: str, folder: Path | None) -> Path:
    if folder is None:
        raise ModelError(f"{what} is stored in another file; give the model by its path, not by its contents")
    root = folder.resolve()
    try:
        path = (root / location).resolve()
        is_there = path.is_file()
    except (OSError, RuntimeError, ValueError) as error:  # cyclic links, or a name that is too long or has a zero byte
        raise ModelError(f"{what} is stored at a location that cannot be read: {str(error)[:200]}") from error
    if not location or Path(location).is_absolute() or not path.is_relative_to(root):
        raise ModelError(f"{what} is stored in '{location}', which is not inside the model's folder")
    if not is_there:
        raise ModelError(f"{what} is stored in '{location}', and there is no such file beside the model")
    return path


def _number(text: str, key: str, what: str) -> int:
    if not text.isascii() or not is_whole(text):
        raise ModelError(f"{what} has the {key} '{text[:MOST_DIGITS]}', which is not a number of bytes")
    return int(text)


def _check_size(what: str, shape: tuple[int, ...], dtype: np.dtype, actual: int, needed: int, unit: str) -> None:
    if actual != needed:
        raise ModelError(
            f"{what} of shape {list(shape)} and type {dtype} needs {needed} {unit}, but {actual} are stored"
        )
