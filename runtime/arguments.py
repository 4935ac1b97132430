"""Arguments of calls: sorts them into the order of the inputs, and makes them readable for native code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import index, itemgetter
from typing import Any

import numpy as np

from ..support.errors import InputError
from ..support.wording import quantity
from .cuda import dlpack
from .dlpack import from_dlpack
from .memory import contiguous
from .program import Shape, TensorInfo

_MAX_THREADS = 4096
"""Maximum number of threads: a choice above the cores of any machine; each thread takes memory for its stack."""


class CallArguments:
    """The inputs that a model declares, as arguments of a call."""

    def __init__(self, inputs: Sequence[TensorInfo]) -> None:
        """Prepares the look-up of arguments by name.

        Args:
            inputs: the model's inputs, in order.
        """
        self._inputs = inputs
        self._by_name = _getter([info.name for info in inputs])

    def in_order(self, args: tuple, kwargs: dict[str, Any]) -> tuple:
        """Returns the arguments of a call in the order of the inputs.

        Raises:
            InputError: there are too few, too many, or unknown ones.
        """
        if not args and len(kwargs) == len(self._inputs):
            try:
                return self._by_name(kwargs)
            except KeyError:
                pass  # an input is not given by name; reported below
        names = [info.name for info in self._inputs]
        if len(args) > len(names):
            raise InputError(
                f"the model takes {quantity(len(names), 'input')}, but {len(args)} were given: {listing(self._inputs)}"
            )
        given = dict(zip(names, args, strict=False)) | kwargs
        twice = [name for name in names[: len(args)] if name in kwargs]
        if twice:
            raise InputError(f"input '{twice[0]}' was given by position and by name")
        unknown = [name for name in kwargs if name not in names]
        if unknown:
            raise InputError(f"no input is called '{unknown[0]}'; the inputs are {listing(self._inputs)}")
        missing = [name for name in names if name not in given]
        if missing:
            raise InputError(f"input '{missing[0]}' is missing; the inputs are {listing(self._inputs)}")
        return tuple(given[name] for name in names)


def accept(value: Any, info: TensorInfo) -> np.ndarray:
    """Returns the argument as an array that native code can read in place, copied only if its layout requires it.

    Raises:
        InputError: its element type is wrong, or it is not an array.
    """
    return contiguous(accept_layout(value, info))


def accept_layout(value: Any, info: TensorInfo) -> np.ndarray:
    """Returns the argument as an array of the input's element type, whatever its layout in memory.

    Raises:
        InputError: its element type is wrong, or it is not an array.
    """
    array = value if type(value) is np.ndarray else _as_array(value, info)
    if array.dtype is not info.dtype and array.dtype != info.dtype:
        order = "" if array.dtype.isnative else " in non-native byte order"
        raise InputError(f"input '{info.name}' must be {info.dtype.name}, but is {array.dtype.name}{order} ({info})")
    return array


def accept_any(value: Any, info: TensorInfo) -> Any:
    """Returns the argument as steps take it: strings as object arrays, values other than tensors unchanged.

    Raises:
        InputError: its element type is wrong, or it is not an array.
    """
    if not is_tensor(info):
        return list(value) if isinstance(value, tuple) else value
    if info.dtype != object:
        return accept(value, info)
    array = np.asarray(value)
    if array.dtype.kind not in "OUS":
        raise InputError(f"input '{info.name}' must hold strings, but is {array.dtype.name} ({info})")
    return array.astype(object)


def numbers(shape: Any, info: TensorInfo) -> Shape:
    """Returns a shape given for an input as numbers.

    Raises:
        InputError: it is not a shape.
    """
    try:
        numbers = tuple(index(dim) for dim in shape)
    except TypeError:
        raise InputError(f"the shape of input '{info.name}' must be numbers ({info}), but is {shape!r}") from None
    if any(number < 0 for number in numbers):
        raise InputError(f"the shape of input '{info.name}' must not be negative ({info}), but is {list(numbers)}")
    return numbers


def thread_count(threads: Any) -> int:
    """Returns a number of threads.

    Raises:
        InputError: it is not a number, or out of range.
    """
    try:
        count = index(threads)
    except TypeError:
        raise InputError(f"threads is {threads!r}, and must be a number") from None
    if not 1 <= count <= _MAX_THREADS:
        raise InputError(f"threads is {count}, and must be 1 to {_MAX_THREADS}")
    return count


def is_tensor(info: TensorInfo) -> bool:
    """Returns whether an input is a tensor, not a sequence, an optional or a map."""
    return info.kind == "tensor"


def listing(tensors: Sequence[TensorInfo]) -> str:
    """Returns the names and types of tensors, for messages."""
    return ", ".join(map(str, tensors))


def _getter(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple]:
    """Returns a function that looks up all these names at once; it raises KeyError if one is missing."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda given: tuple([given[name] for name in names])


def _as_array(value: Any, info: TensorInfo) -> np.ndarray:
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        if dlpack.on_device(value):
            return dlpack.adopt(value, info.name)  # type: ignore[return-value]
        try:
            return from_dlpack(value)
        except Exception as error:  # the other library may raise anything
            raise InputError(f"input '{info.name}' cannot be read through __dlpack__: {error}") from error
    raise InputError(
        f"input '{info.name}' must be a numpy array or have __dlpack__ ({info}), but is of type {type(value).__name__}"
    )
