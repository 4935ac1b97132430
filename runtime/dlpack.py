"""Host tensors of other libraries through DLPack, including element types that numpy lacks."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

_HOST_DEVICES = (1, 3, 11, 13)
"""DLPack device types whose memory the host can read: CPU, CUDA pinned, ROCm pinned, CUDA managed."""

_NUMPY_TYPES = {
    **{(code, bits): f"{kind}{bits}" for code, kind in enumerate(("int", "uint")) for bits in (8, 16, 32, 64)},
    **{(2, bits): f"float{bits}" for bits in (16, 32, 64)},
    (6, 8): "bool",
}
"""numpy's element types by DLPack's type code and bit width."""

_OTHER_TYPES = {
    (4, 16): "bfloat16",
    (7, 8): "float8_e3m4",
    (8, 8): "float8_e4m3",
    (9, 8): "float8_e4m3b11fnuz",
    (10, 8): "float8_e4m3fn",
    (11, 8): "float8_e4m3fnuz",
    (12, 8): "float8_e5m2",
    (13, 8): "float8_e5m2fnuz",
    (14, 8): "float8_e8m0fnu",
}
"""ml_dtypes' element types by DLPack's type code and bit width."""

# DLPACK_MAJOR_VERSION and DLPACK_FLAG_BITMASK_READ_ONLY of dlpack.h.
_MAJOR = 1
_READ_ONLY = 1


class Tensor(ctypes.Structure):
    """`DLTensor` of DLPack's C header; strides count elements, and a null pointer means row-major."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Managed(ctypes.Structure):
    """`DLManagedTensor`: a tensor and the function that frees it, as in a capsule named "dltensor"."""

    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class ManagedVersioned(ctypes.Structure):
    """`DLManagedTensorVersioned`, as in a capsule named "dltensor_versioned"."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_api = ctypes.pythonapi
_api.PyCapsule_IsValid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)

_KINDS = (
    (b"dltensor_versioned", b"used_dltensor_versioned", ManagedVersioned),
    (b"dltensor", b"used_dltensor", Managed),
)


class _Lease:
    """Memory of another library, released when the last array over it is gone."""

    def __init__(self, managed: Managed | ManagedVersioned, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface
        if managed.deleter:
            give_back = weakref.finalize(self, DELETER(managed.deleter), ctypes.addressof(managed))
            give_back.atexit = False  # the other library may be gone by then


def from_dlpack(value: Any) -> np.ndarray:
    """Returns an array over the memory of another library's tensor, without a copy.

    Element types that numpy lacks, such as bfloat16 and the kinds of float8, are those of ml_dtypes.

    Args:
        value: an object with `__dlpack__` and `__dlpack_device__`.

    Raises:
        BufferError: the tensor is on another device, or has an element type without a numpy equivalent.
    """
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError):  # numpy rejects some element types, among other things
        return _read(value)


def element_type(tensor: Tensor) -> np.dtype | None:
    """Returns the element type of a tensor as numpy or ml_dtypes name it; None if neither has it."""
    key = tensor.code, tensor.bits
    if tensor.lanes != 1 or (key not in _NUMPY_TYPES and key not in _OTHER_TYPES):
        return None
    if key in _NUMPY_TYPES:
        return np.dtype(_NUMPY_TYPES[key])
    import ml_dtypes  # needed only by models with such elements

    return np.dtype(getattr(ml_dtypes, _OTHER_TYPES[key]))


def element_code(dtype: np.dtype) -> int:
    """Returns DLPack's code of an element type.

    Raises:
        BufferError: DLPack has none.
    """
    for (code, _), name in (*_NUMPY_TYPES.items(), *_OTHER_TYPES.items()):
        if name == dtype.name:
            return code
    raise BufferError(f"DLPack has no element type {dtype.name}")


def _read(value: Any) -> np.ndarray:
    device = value.__dlpack_device__()[0]
    if device not in _HOST_DEVICES:
        raise BufferError(
            f"the tensor is in the memory of a device (DLPack's device type {int(device)}): copy it to the CPU first"
        )
    try:
        capsule = value.__dlpack__(max_version=(_MAJOR, 0))
    except TypeError:  # a library from before DLPack 1.0
        capsule = value.__dlpack__()
    kind = next((kind for kind in _KINDS if _api.PyCapsule_IsValid(capsule, kind[0])), None)
    if kind is None:
        raise BufferError(f"__dlpack__ gave {capsule!r}, not a capsule with a tensor that is not consumed yet")
    name, used, layout = kind
    managed = ctypes.cast(_api.PyCapsule_GetPointer(capsule, name), ctypes.POINTER(layout)).contents
    # Until the capsule is renamed below, it frees the tensor itself.
    if isinstance(managed, ManagedVersioned) and managed.major != _MAJOR:
        raise BufferError(f"the tensor has DLPack version {managed.major}.{managed.minor}; only 1.x is supported")
    tensor = managed.tensor
    dtype = element_type(tensor)
    if dtype is None:
        raise BufferError(
            f"unsupported element type: DLPack type {tensor.code} with {tensor.bits} bits, {tensor.lanes} lanes"
        )
    shape = tuple(tensor.shape[: tensor.ndim])
    if 0 in shape:
        return np.empty(shape, dtype)
    strides = tuple([stride * dtype.itemsize for stride in tensor.strides[: tensor.ndim]]) if tensor.strides else None
    is_read_only = isinstance(managed, ManagedVersioned) and bool(managed.flags & _READ_ONLY)
    _api.PyCapsule_SetName(capsule, used)
    lease = _Lease(
        managed,
        {
            "version": 3,
            "data": ((tensor.data or 0) + tensor.byte_offset, is_read_only),
            "shape": shape,
            "strides": strides,
            "typestr": np.dtype(f"u{dtype.itemsize}").str,
        },
    )
    return np.asarray(lease).view(dtype)
