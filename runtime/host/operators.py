"""Host operators that ONNX's reference implementation lacks or gets wrong: maps, operators on strings, and Unique."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

_START, _END = "\x02", "\x03"


class DirectNode:
    """A node with one of these operators."""

    def __init__(
        self,
        function: Callable[..., tuple[Any, ...]],
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: dict[str, Any],
        stored: dict[str, np.ndarray],
    ) -> None:
        self._function, self._inputs, self._outputs = function, inputs, outputs
        self._attributes, self._stored = attributes, stored

    def run(self, _: None, values: dict[str, Any]) -> tuple[Any, ...]:
        """Computes the node's outputs; the interface is that of ONNX's reference evaluator."""
        known = {**self._stored, **values}
        given = [known[name] if name else None for name in self._inputs]
        results = self._function(*given, **self._attributes)
        # Outputs that the model does not use are left out, or have no name.
        return tuple(result for name, result in zip(self._outputs, results, strict=False) if name)


def direct_node(proto: Any) -> DirectNode | None:
    """Returns the runner of an ONNX model that consists of one such node; None for any other model."""
    from onnx import helper, numpy_helper

    graph = proto.graph
    if len(graph.node) != 1:
        return None
    (node,) = graph.node
    function = _OPERATORS.get((node.domain, node.op_type))
    if function is None:
        return None
    attributes = {item.name: _plain(helper.get_attribute_value(item)) for item in node.attribute}
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    return DirectNode(function, list(node.input), list(node.output), attributes, stored)


def _plain(value: Any) -> Any:
    """Returns an attribute's value with bytes decoded to strings."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _zip_map(
    scores: np.ndarray, classlabels_int64s: Sequence[int] = (), classlabels_strings: Sequence[str] = ()
) -> tuple[list[dict[Any, float]]]:
    """Returns a map from class to score for each row."""
    labels = list(classlabels_int64s) or list(classlabels_strings)
    rows = scores.reshape(-1, scores.shape[-1])
    if rows.shape[1] != len(labels):
        raise ValueError(f"Input features_per_batch[{rows.shape[1]}] != number of classlabels[{len(labels)}]")
    return ([dict(zip(labels, row, strict=True)) for row in rows.tolist()],)


def _cast_map(
    values: dict[int, Any], cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1
) -> tuple[np.ndarray]:
    """Returns the values of a map, in the order of its keys or, if it is sparse, with its keys as positions."""
    kinds = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": np.object_}
    keys = sorted(values)
    places = range(len(keys)) if map_form == "DENSE" else keys
    kind = kinds[cast_to]
    result = np.full((1, len(keys) if map_form == "DENSE" else max_map), "" if cast_to == "TO_STRING" else 0, kind)
    for place, key in zip(places, keys, strict=True):
        value = values[key]
        result[0, place] = str(value) if cast_to == "TO_STRING" else kind(float(value))
    return (result,)


def _category_mapper(
    values: np.ndarray,
    cats_int64s: Sequence[int] = (),
    cats_strings: Sequence[str] = (),
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> tuple[np.ndarray]:
    """Maps category names to their numbers, or numbers to names."""
    if values.dtype.kind in "iu":
        names = dict(zip(cats_int64s, cats_strings, strict=True))
        found = [names.get(item, default_string) for item in values.reshape(-1).tolist()]
        return (np.array(found, np.object_).reshape(values.shape),)
    numbers = dict(zip(cats_strings, cats_int64s, strict=True))
    found = [numbers.get(item, default_int64) for item in values.reshape(-1).tolist()]
    return (np.array(found, np.int64).reshape(values.shape),)


def _label_encoder(values: np.ndarray, classes_strings: Sequence[str] = (), **given: Any) -> tuple[np.ndarray]:
    """Maps each element as a key to its value; before version 2, names to numbers or numbers to names."""
    if classes_strings:
        numbers = range(len(classes_strings))
        return _category_mapper(
            values,
            numbers,
            classes_strings,
            given.get("default_int64", -1),
            given.get("default_string", "_Unused"),
        )
    keys = _side(given, "keys")
    items = _side(given, "values")
    named = given.get("default_tensor")
    if named is not None:
        default = _array_of(named).reshape(-1)[0]
    elif items.dtype == object:
        default = given.get("default_string", "_Unused")
    else:
        is_whole = items.dtype.kind in "iu"
        default = given.get("default_int64", -1) if is_whole else given.get("default_float", -0.0)
    table = dict(reversed(list(zip(keys.tolist(), items.tolist(), strict=True))))
    found = [table.get(item, default) for item in values.reshape(-1).tolist()]
    return (np.array(found, items.dtype).reshape(values.shape),)


def _side(given: dict[str, Any], side: str) -> np.ndarray:
    """Returns the keys or values as an array."""
    for name, kind in (("strings", np.object_), ("int64s", np.int64), ("floats", np.float32)):
        if given.get(f"{side}_{name}"):
            return np.array(given[f"{side}_{name}"], kind)
    return _array_of(given[f"{side}_tensor"])


def _array_of(tensor: Any) -> np.ndarray:
    """Returns a stored tensor as an array; strings as Python objects."""
    from onnx import numpy_helper

    array = numpy_helper.to_array(tensor)
    if array.dtype != object:
        return array
    texts = [item.decode() if isinstance(item, bytes) else item for item in array.reshape(-1)]
    return np.array(texts, np.object_).reshape(array.shape)


def _unique(values: np.ndarray, axis: int | None = None, sorted: int = 1) -> tuple[np.ndarray, ...]:
    """Returns the distinct elements or slices, the index of the first one, the inverse, and their counts.

    The reference implementation ignores `sorted` for one output.
    """
    distinct, first, inverse, counts = np.unique(
        values, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    order = np.arange(len(first)) if sorted else np.argsort(first)
    place = np.argsort(order)[inverse.reshape(-1)]
    distinct = np.take(distinct, order, 0 if axis is None else axis)
    return distinct, first[order].astype(np.int64), place.astype(np.int64), counts[order].astype(np.int64)


def _unique_in_order(values: np.ndarray) -> tuple[np.ndarray, ...]:
    """Returns the distinct elements in order of first occurrence, the index of each among these, and their counts."""
    distinct, _, inverse, counts = _unique(values, sorted=0)
    return distinct, inverse, counts


def _murmur_hash(values: np.ndarray, seed: int = 0, positive: int = 1) -> tuple[np.ndarray]:
    """Computes 32-bit MurmurHash3 of each element's bytes."""
    if values.dtype.kind in "OUS":
        parts = [str(item).encode() for item in values.reshape(-1)]
    else:
        parts = [item.tobytes() for item in values.reshape(-1)]
    hashes = np.array([_murmur(part, seed & 0xFFFFFFFF) for part in parts], np.uint32)
    return ((hashes if positive else hashes.view(np.int32)).reshape(values.shape),)


def _murmur(data: bytes, seed: int) -> int:
    """Computes MurmurHash3_x86_32, after its public definition."""
    mask = 0xFFFFFFFF

    def rotated(value: int, bits: int) -> int:
        return (value << bits | value >> (32 - bits)) & mask

    def mixed(block: int) -> int:
        return rotated(block * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask

    whole = len(data) // 4 * 4
    state = seed
    for start in range(0, whole, 4):
        state = rotated(state ^ mixed(int.from_bytes(data[start : start + 4], "little")), 13)
        state = (state * 5 + 0xE6546B64) & mask
    if data[whole:]:
        state ^= mixed(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & mask
    state = (state ^ state >> 13) * 0xC2B2AE35 & mask
    return state ^ state >> 16


def _tokenizer(
    texts: np.ndarray,
    mark: int = 0,
    mincharnum: int = 1,
    pad_value: str = "",
    separators: Sequence[str] = (),
    tokenexp: str = "",
) -> tuple[np.ndarray]:
    """Splits each text into tokens along a new last dimension, padded to the longest row."""
    if separators and list(separators) != [""]:
        pattern = re.compile("|".join(f"(?:{separator})" for separator in separators), re.ASCII)
        cut = functools.partial(_between, pattern)
    elif separators:
        cut = iter
    else:
        expression = re.compile(tokenexp, re.ASCII)
        cut = functools.partial(_matches, expression)
    rows = [[token for token in cut(str(text)) if len(token) >= mincharnum] for text in texts.reshape(-1)]
    longest = max(map(len, rows), default=0)
    if mark and longest:
        rows = [[_START, *row, _END] for row in rows]
        longest += 2
    filled = [row + [pad_value] * (longest - len(row)) for row in rows]
    result = np.empty((len(rows), longest), np.object_)
    for index, row in enumerate(filled):
        result[index] = row
    return (result.reshape(*texts.shape, longest),)


def _between(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """Yields the text between the matches of a pattern."""
    start = 0
    for match in pattern.finditer(text):
        yield text[start : match.start()]
        start = match.end()
    yield text[start:]


def _matches(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """Yields the whole matches of a pattern."""
    return (match.group() for match in pattern.finditer(text))


_ML, _MS = "ai.onnx.ml", "com.microsoft"
_OPERATORS: dict[tuple[str, str], Callable[..., tuple[Any, ...]]] = {
    (_ML, "ZipMap"): _zip_map,
    (_ML, "CastMap"): _cast_map,
    (_ML, "CategoryMapper"): _category_mapper,
    (_ML, "LabelEncoder"): _label_encoder,
    (_MS, "MurmurHash3"): _murmur_hash,
    (_MS, "Tokenizer"): _tokenizer,
    (_MS, "Unique"): _unique_in_order,
    ("", "Unique"): _unique,
    ("", "Identity"): lambda value: (value,),
}
