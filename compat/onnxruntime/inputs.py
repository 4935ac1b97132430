"""What a run is given: taken as compiled code takes it, and what is wrong with it in ONNX Runtime's words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...frontend.errors import UnsupportedError
from ...runtime.errors import InputError
from ...runtime.program import TensorInfo
from .errors import Fail, InvalidArgument, NotImplemented, failure
from .values import OrtValue, type_name


def arranged(feed: Mapping[str, Any], inputs: Sequence[TensorInfo]) -> list[Any]:
    """The values of a feed in the order of the inputs; optional ones may be missing.

    Raises:
        ValueError: an input is missing.
        InvalidArgument: there is no such input.
    """
    try:
        values = [feed[info.name] for info in inputs]
    except KeyError:
        values = []
    if len(values) != len(feed) or len(values) != len(inputs):
        values = _with_absent(feed, inputs)
    return [
        value if type(value) is np.ndarray else _plain(value, info) for value, info in zip(values, inputs, strict=True)
    ]


@contextmanager
def errors_of_onnxruntime() -> Iterator[None]:
    """Turns Stepwell's errors into those that programs expect."""
    try:
        yield
    except Exception as error:
        told = as_in_onnxruntime(error)
        if told is error:
            raise
        raise told from error


def as_in_onnxruntime(error: Exception, inputs: Sequence[TensorInfo] = (), values: Sequence[Any] = ()) -> Exception:
    """An error of Stepwell's as programs expect it, of whatever level; others' as they are.

    Args:
        error: what was raised.
        inputs: what a run takes.
        values: what it was given for them.
    """
    if isinstance(error, UnsupportedError):
        return failure(NotImplemented, str(error))
    if isinstance(error, InputError):
        said = [text for info, value in zip(inputs, values, strict=True) if (text := _fault(info, value))]
        return failure(InvalidArgument, said[0] if said else str(error))
    return failure(Fail, str(error)) if type(error).__module__.startswith("stepwell.") else error


def _with_absent(feed: Mapping[str, Any], inputs: Sequence[TensorInfo]) -> list[Any]:
    """The values of a feed that is not of one for each input."""
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
    return np.asarray(value, info.dtype) if isinstance(value, list | tuple | int | float | bool) else value


def _fault(info: TensorInfo, value: Any) -> str:
    """What ONNX Runtime says of a tensor that is not the input's; empty where nothing is wrong with it."""
    if info.kind != "tensor" or not isinstance(value, np.ndarray):
        return ""
    if not value.dtype.isnative:  # ONNX Runtime reads it in the wrong order, and has no words for it
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
    except (KeyError, TypeError):  # what no tensor of ONNX Runtime's holds
        return name
