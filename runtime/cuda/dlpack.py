"""Zero-copy exchange of tensors on a device with other libraries (DLPack)."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...support.errors import InputError
from ..dlpack import DELETER, Managed, Tensor, element_code, element_type

CUDA = 2
"""DLPack's device type of GPU memory."""

DEFAULT_STREAM = 1
"""The default stream, in the numbering of DLPack and the driver."""

_NAME = b"dltensor"
_USED = b"used_dltensor"


_api = ctypes.pythonapi
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
# The argument is declared as a pointer, because a capsule that is being destroyed must not be reference-counted.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))

_lent: dict[int, tuple[Managed, Any]] = {}
"""Tensors held by other libraries, keyed by the address of their DLPack record, until they are released."""


@DELETER
def _take_back(address: int) -> None:
    _lent.pop(address, None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _drop(capsule: int) -> None:
    """Destructor of a capsule: releases the tensor if no library has taken it."""
    if _is_valid(capsule, _NAME):
        _lent.pop(_pointer(capsule, _NAME), None)


@dataclass(frozen=True)
class _Flags:
    c_contiguous: bool = True


class DeviceArray:
    """A dense, row-major tensor on a device.

    Attributes:
        address: address of the tensor.
        shape: shape of the tensor.
        dtype: element type.
        number: index of the device.
        flags: numpy-style flags: the tensor is dense.
    """

    flags = _Flags()

    def __init__(
        self,
        address: int,
        shape: tuple[int, ...],
        dtype: np.dtype,
        number: int,
        owner: Any,
        hand_over: Callable[[int], None] | None = None,
    ) -> None:
        """Creates a reference to a tensor.

        Args:
            address: address of the tensor.
            shape: shape of the tensor.
            dtype: element type.
            number: index of the device.
            owner: object that keeps the memory alive.
            hand_over: makes a stream, given by its handle, wait until the tensor has been computed.
        """
        self.address, self.shape, self.dtype, self.number = address, shape, dtype, number
        self._owner, self._hand_over = owner, hand_over

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The interface through which numpy would read the tensor.

        Raises:
            InputError: always: host code cannot access device memory.
        """
        raise InputError(f"{self!r} cannot be read on the host: copy it there first")

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.number

    def __dlpack__(self, *, stream: int | None = None, **_: Any) -> Any:
        """Returns the tensor as a capsule for another library, ordered with its stream; -1 for no ordering."""
        if stream != -1:
            self.ready(stream or DEFAULT_STREAM)
        return _capsule(self)

    def ready(self, stream: int) -> None:
        """Makes later work on a stream wait until the tensor has been computed."""
        if self._hand_over is not None:
            self._hand_over(stream)

    def __repr__(self) -> str:
        return f"<DeviceArray {self.dtype.name}{list(self.shape)} on device {self.number}>"


def on_device(value: Any) -> bool:
    """Returns whether a value is a tensor in GPU memory."""
    return hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] == CUDA


def adopt(value: Any, name: str) -> DeviceArray:
    """Wraps a tensor of another library, to be read after the work on the default stream so far.

    Args:
        value: object with `__dlpack__`, in GPU memory.
        name: name of the input, for messages.

    Raises:
        InputError: its element type is not supported, or it is not dense.
    """
    capsule = value.__dlpack__(stream=DEFAULT_STREAM)
    managed = ctypes.cast(_api.PyCapsule_GetPointer(capsule, _NAME), ctypes.POINTER(Managed)).contents
    tensor = managed.tensor
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    dtype = element_type(tensor)
    if dtype is None:
        raise InputError(
            f"input '{name}' has the unsupported DLPack element type {tensor.code} with {tensor.bits} bits"
        )
    if tensor.strides and not _is_dense(shape, [tensor.strides[axis] for axis in range(tensor.ndim)]):
        raise InputError(f"input '{name}' is on a device and not dense: make it contiguous first")
    _api.PyCapsule_SetName(capsule, _USED)
    array = DeviceArray((tensor.data or 0) + tensor.byte_offset, shape, dtype, tensor.device_id, value)
    if managed.deleter:
        weakref.finalize(array, DELETER(managed.deleter), ctypes.addressof(managed))
    return array


def _is_dense(shape: tuple[int, ...], strides: list[int]) -> bool:
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _capsule(array: DeviceArray) -> Any:
    shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    tensor = Tensor(
        array.address, CUDA, array.number, array.ndim, element_code(array.dtype), 8 * array.dtype.itemsize, 1,
        ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)), None, 0,
    )  # fmt: skip
    managed = Managed(tensor, None, ctypes.cast(_take_back, ctypes.c_void_p))
    address = ctypes.addressof(managed)
    _lent[address] = managed, (array, shape)
    return _api.PyCapsule_New(address, _NAME, ctypes.cast(_drop, ctypes.c_void_p))
