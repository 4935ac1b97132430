"""Tensors in the safetensors layout, for memory mapping: a length, a JSON header, then the bytes.

Every tensor starts at a multiple of 64 bytes. The format allows no gaps, so padding between two tensors is a byte
tensor named `.pad<n>`, which other readers see and this one omits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

from ..support.errors import ArtefactError
from .memory import ALIGNMENT

_NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
    # The layout has no names for these.
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float4_e2m1fn": "F4_IN_BYTE",
    **{name: f"{name.upper()}_IN_BYTE" for name in ("int4", "int2", "uint4", "uint2")},
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
MOST_HEADER_BYTES = 100_000_000
"""Maximum size of a header in bytes, as in the reference implementation (MAX_HEADER_SIZE, 100,000,000)."""
_PAD = ".pad"


def dtype_of(name: str) -> np.dtype:
    """Returns the numpy dtype called `name` ("float32"); ml_dtypes supplies those that numpy lacks.

    Raises:
        ArtefactError: there is no such element type.
    """
    if name not in _NAMES:
        raise ArtefactError(f"'{name}' is not an element type")
    if hasattr(np, name) or name == "bool":
        return np.dtype(name)
    import ml_dtypes  # needed only by models with such elements

    return np.dtype(getattr(ml_dtypes, name))


def chunks(
    tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None, *, is_padded: bool = True
) -> list[bytes | memoryview]:
    """Returns the file's bytes in pieces; tensors that are contiguous are not copied.

    Args:
        tensors: the tensors by name.
        metadata: entries for the header's metadata, which other readers show.
        is_padded: whether tensors start at multiples of 64 bytes. Without padding, wide elements come first, so that
            tensors start at multiples of their elements.
    """
    if not is_padded:
        tensors = dict(sorted(tensors.items(), key=lambda item: -item[1].itemsize))
    header: dict[str, dict] = {} if metadata is None else {"__metadata__": dict(metadata)}
    pieces: list[bytes | memoryview] = []
    end = 0
    for name, array in tensors.items():
        gap = -end % ALIGNMENT if is_padded else 0
        if gap:
            header[f"{_PAD}{len(pieces)}"] = {"dtype": "U8", "shape": [gap], "data_offsets": [end, end + gap]}
            pieces.append(bytes(gap))
            end += gap
        shape = list(array.shape)
        header[name] = {"dtype": _NAMES[array.dtype.name], "shape": shape, "data_offsets": [end, end + array.nbytes]}
        # bfloat16 has no buffer protocol, and zero-dimensional arrays have no view with another element size
        pieces.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        end += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return [len(text).to_bytes(8, "little"), text, *pieces]


def view(data: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the tensors in a file's bytes, as views.

    Raises:
        ArtefactError: the header is invalid, or its sizes are wrong.
    """
    length = int.from_bytes(data[:8].tobytes(), "little")
    if len(data) < 8 or length > min(MOST_HEADER_BYTES, len(data) - 8):
        raise ArtefactError("the parameters' header is longer than the file")
    try:
        header = json.loads(data[8 : 8 + length].tobytes())
        entries = [(name, entry) for name, entry in header.items() if not name.startswith((_PAD, "__metadata__"))]
        body = data[8 + length :]
        return {
            name: _tensor(name, body, dtype_of(_DTYPES[entry["dtype"]]), tuple(entry["shape"]), *entry["data_offsets"])
            for name, entry in entries
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArtefactError(f"the parameters' header is not a valid safetensors header: {error!r}") from error


def _tensor(name: str, body: np.ndarray, dtype: np.dtype, shape: tuple[int, ...], start: int, end: int) -> np.ndarray:
    size = dtype.itemsize
    for dim in shape:
        size *= dim
    if not (0 <= start <= end <= len(body) and end - start == size and all(dim >= 0 for dim in shape)):
        raise ArtefactError(
            f"parameter '{name}' claims bytes {start} to {end} for shape {shape} of {dtype}, of {len(body)}"
        )
    return body[start:end].view(dtype).reshape(shape)
