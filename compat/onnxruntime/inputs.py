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
    missing = [info.name for info in inputs if info.name not in feed and not info.kind.startswith("optional")]
    if missing:
        raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(feed)}).")
    names = {info.name for info in inputs}
    unknown = [name for name in feed if name not in names]
    if unknown:
        raise failure(InvalidArgument, f"Invalid input name: {unknown[0]}")
    return [_plain(feed.get(info.name), info) for info in inputs]


@contextmanager
def errors_of_onnxruntime(inputs: Sequence[TensorInfo] = (), values: Sequence[Any] = ()) -> Iterator[None]:
    """Turns Stepwell's errors into those that programs expect; `values` are what was given for `inputs`."""
    try:
        yield
    except UnsupportedError as error:
        raise failure(NotImplemented, str(error)) from error
    except InputError as error:
        said = [text for info, value in zip(inputs, values, strict=True) if (text := _fault(info, value))]
        raise failure(InvalidArgument, said[0] if said else str(error)) from error
    except Exception as error:  # of any level of the compiler; others' errors pass
        if not type(error).__module__.startswith("stepwell."):
            raise
        raise failure(Fail, str(error)) from error


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
