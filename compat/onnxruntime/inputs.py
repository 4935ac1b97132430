"""The inputs of a run: converted for compiled code, and checked with ONNX Runtime's error messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...frontend.errors import UnsupportedError
from ...runtime.program import TensorInfo
from ...support.errors import DataError, InputError
from .errors import Fail, InvalidArgument, NotImplemented, failure
from .values import OrtValue, type_name


def arranged(feed: Mapping[str, Any], inputs: Sequence[TensorInfo]) -> list[Any]:
    """Returns the values of a feed in the order of the inputs; optional ones may be missing.

    Raises:
        ValueError: an input is missing.
        InvalidArgument: there is no such input.
    """
    try:
        values = [feed[info.name] for info in inputs]
    except KeyError:
        values = []
    if len(values) != len(feed) or len(values) != len(inputs):
        values = _values_with_missing(feed, inputs)
    return [
        value if type(value) is np.ndarray else _plain(value, info) for value, info in zip(values, inputs, strict=True)
    ]


@contextmanager
def errors_of_onnxruntime() -> Iterator[None]:
    """Converts Stepwell's errors into those that programs expect."""
    try:
        yield
    except Exception as error:  # converted, or raised as it is
        converted = as_in_onnxruntime(error)
        if converted is error:
            raise
        raise converted from error


def as_in_onnxruntime(error: Exception, inputs: Sequence[TensorInfo] = (), values: Sequence[Any] = ()) -> Exception:
    """Converts any of Stepwell's errors into the one that programs expect; returns others unchanged.

    Args:
        error: the exception that was raised.
        inputs: the inputs of the run.
        values: the values given for them.
    """
    if isinstance(error, UnsupportedError):
        return failure(NotImplemented, str(error))
    if isinstance(error, DataError):
        return _data_failure(error)
    if isinstance(error, InputError):
        faults = [text for info, value in zip(inputs, values, strict=True) if (text := _fault(info, value))]
        return failure(InvalidArgument, faults[0] if faults else str(error))
    is_ours = type(error).__module__.startswith("stepwell.") and not isinstance(error, Warning)
    return failure(Fail, str(error)) if is_ours else error


def _data_failure(error: DataError) -> Exception:
    """Returns ONNX Runtime's error for data that a node cannot process."""
    messages = {
        "Div": "Integer division by zero",
        "Mod": "Integer modulo by zero",
        "GatherElements": "GatherElements op: Out of range value in index tensor",
    }
    kind, text = (Fail, messages[error.op_type]) if error.op_type in messages else (InvalidArgument, _index_text(error))
    where = f"Non-zero status code returned while running {error.op_type} node. Name:'{error.node}'"
    return failure(kind, f"{where} Status Message: {text}")


def _index_text(error: DataError) -> str:
    index = "" if error.index is None else str(error.index)
    if error.op_type == "GatherND":
        return f"invalid index found, index = {index}" if index else "invalid index found"
    if error.op_type == "ScatterND":
        return f"invalid indice found, indice = {index}" if index else "invalid indice found"
    if error.index is None or error.extent is None:
        return "indices element out of data bounds"
    bounds = f"[{-error.extent},{error.extent - 1}]"
    return f"indices element out of data bounds, idx={index} must be within the inclusive range {bounds}"


def _values_with_missing(feed: Mapping[str, Any], inputs: Sequence[TensorInfo]) -> list[Any]:
    """Returns the values of a feed that does not have exactly one for each input."""
    missing = [info.name for info in inputs if info.name not in feed and not info.kind.startswith("optional")]
    if missing:
        raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(feed)}).")
    names = {info.name for info in inputs}
    unknown = [name for name in feed if name not in names]
    if unknown:
        raise failure(InvalidArgument, f"Invalid input name: {unknown[0]}")
    return [feed.get(info.name) for info in inputs]


def _plain(value: Any, info: TensorInfo) -> Any:
    if isinstance(value, OrtValue):
        return value.numpy()
    if info.kind != "tensor":
        return value
    return _from_list(value, info) if isinstance(value, list | tuple | int | float | bool) else value


def _from_list(value: Any, info: TensorInfo) -> np.ndarray:
    """Makes an array of nested lists: converts numbers to the input's element type, or anything to strings.

    Raises:
        RuntimeError: the lists differ in length, or an element cannot be converted; as in ONNX Runtime.
    """
    try:
        array = np.asarray(value, info.dtype)
        if info.dtype != object:
            return array
        return np.array([str(element) for element in array.flat], object).reshape(array.shape)
    except (ValueError, TypeError, OverflowError) as error:
        raise RuntimeError(
            f"Could not create tensor from given input list for input '{info.name}' ({info}): {error}"
        ) from error


def _fault(info: TensorInfo, value: Any) -> str:
    """Returns ONNX Runtime's message for a tensor that does not match the input; empty if it does."""
    if info.kind != "tensor" or not isinstance(value, np.ndarray):
        return ""
    if not value.dtype.isnative:  # ONNX Runtime reads it in the wrong byte order and has no message for it
        return ""
    if info.dtype != object and value.dtype != info.dtype:
        kind = value.dtype.name if value.dtype.name not in ("str", "bytes") else "object"
        return f"Unexpected input data type. Actual: ({_kind(kind)}) , expected: ({type_name(info.dtype)})"
    remedy = "Please fix either the inputs/outputs or the model."
    if len(value.shape) != len(info.shape):
        return f"Invalid rank for input: {info.name} Got: {value.ndim} Expected: {len(info.shape)} {remedy}"
    wrong = [
        f" index: {place} Got: {got} Expected: {wanted}"
        for place, (got, wanted) in enumerate(zip(value.shape, info.shape, strict=True))
        if isinstance(wanted, int) and got != wanted
    ]
    if not wrong:
        return ""
    return "\n".join([f"Got invalid dimensions for input: {info.name} for the following indices", *wrong, f" {remedy}"])


def _kind(name: str) -> str:
    try:
        return type_name(np.dtype(name))
    except (KeyError, TypeError):  # not an element type of ONNX Runtime's tensors
        return name
