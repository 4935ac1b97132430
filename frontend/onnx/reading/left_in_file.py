"""Parses an ONNX file without its large weights, which stay in the file as if they were external data.

Parsing would copy them, and reading their bytes would copy them again. Weights left in the file are mapped.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import onnx

from ....support.errors import StepwellError

_LEAST_BYTES = 1 << 18
"""Minimum size in bytes of weights that stay in the file: a choice, as smaller ones are copied in microseconds."""
# Field numbers (onnx.proto) and wire types (Protocol Buffers, "Encoding").
_GRAPH, _INITIALIZER, _RAW_DATA, _DATA_LOCATION = 7, 5, 9, 14
_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5
_VARINT_BYTES = 10


class _Unknown(StepwellError):
    """The data does not follow the message encoding that is supported here."""


class _Field(NamedTuple):
    """A field of a message: offsets of its beginning, of its value, and of the end of both."""

    number: int
    kind: int
    begin: int
    value: int
    end: int


def without_weights(path: Path) -> bytes | None:
    """A model file as bytes in which large weights refer to their offset in the file; None if this saves nothing.

    Raises:
        OSError: the file cannot be read.
    """
    folder = path.parent.resolve()
    if path.resolve().parent != folder or not path.name.isprintable():
        return None  # external data elsewhere is not read
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return _model(data, path.name)
        except _Unknown:  # the parser reports the error
            return None


def _model(data: mmap.mmap, name: str) -> bytes | None:
    graphs = [field for field in _fields(data, 0, len(data)) if field.number == _GRAPH and field.kind == _SIZED]
    if len(graphs) != 1:
        return None
    parts, kept = [], graphs[0].value
    for field in _fields(data, graphs[0].value, graphs[0].end):
        if field.number != _INITIALIZER or field.kind != _SIZED or field.end - field.value < _LEAST_BYTES:
            continue
        tensor = _tensor(data, field, name)
        if tensor is not None:
            parts += [data[kept : field.begin], _sized(_INITIALIZER, tensor)]
            kept = field.end
    if not parts:
        return None
    graph = b"".join([*parts, data[kept : graphs[0].end]])
    return b"".join([data[: graphs[0].begin], _sized(_GRAPH, graph), data[graphs[0].end :]])


def _tensor(data: mmap.mmap, place: _Field, name: str) -> bytes | None:
    """A tensor with external data; None if its data is external already, or it has no raw data."""
    fields = list(_fields(data, place.value, place.end))
    raw = [field for field in fields if field.number == _RAW_DATA and field.kind == _SIZED]
    if len(raw) != 1 or any(field.number == _DATA_LOCATION for field in fields):
        return None
    tensor = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", name), ("offset", raw[0].value), ("length", raw[0].end - raw[0].value)):
        tensor.external_data.add(key=key, value=str(value))
    return b"".join(data[field.begin : field.end] for field in fields if field not in raw) + tensor.SerializeToString()


def _fields(data: mmap.mmap, start: int, end: int) -> Iterator[_Field]:
    while start < end:
        tag, value = _varint(data, start, end)
        number, kind = tag >> 3, tag & 7
        if kind == _SIZED:
            size, value = _varint(data, value, end)
            stop = value + size
        elif kind == _VARINT:
            stop = _varint(data, value, end)[1]
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            stop = value + (8 if kind == _EIGHT_BYTES else 4)
        else:
            raise _Unknown
        if stop > end:
            raise _Unknown
        yield _Field(number, kind, start, value, stop)
        start = stop


def _varint(data: mmap.mmap, start: int, end: int) -> tuple[int, int]:
    """The number at an offset, and the offset of its end."""
    number = 0
    for place in range(start, min(end, start + _VARINT_BYTES)):
        number |= (data[place] & 0x7F) << 7 * (place - start)
        if data[place] < 0x80:
            return number, place + 1
    raise _Unknown


def _sized(number: int, value: bytes) -> bytes:
    """Encodes a field whose value is bytes."""
    return _encoded(number << 3 | _SIZED) + _encoded(len(value)) + value


def _encoded(number: int) -> bytes:
    parts = bytearray()
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])
