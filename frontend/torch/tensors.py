"""Tensors of torch as numpy arrays of the same memory, and back, and the element types of both."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import ml_dtypes
import numpy as np
import torch

from ..errors import UnsupportedError

_DTYPES: dict[torch.dtype, np.dtype] = {
    torch.float64: np.dtype(np.float64),
    torch.float32: np.dtype(np.float32),
    torch.float16: np.dtype(np.float16),
    torch.bfloat16: np.dtype(ml_dtypes.bfloat16),
    torch.int64: np.dtype(np.int64),
    torch.int32: np.dtype(np.int32),
    torch.int16: np.dtype(np.int16),
    torch.int8: np.dtype(np.int8),
    torch.uint64: np.dtype(np.uint64),
    torch.uint32: np.dtype(np.uint32),
    torch.uint16: np.dtype(np.uint16),
    torch.uint8: np.dtype(np.uint8),
    torch.bool: np.dtype(np.bool_),
    torch.float8_e4m3fn: np.dtype(ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: np.dtype(ml_dtypes.float8_e5m2),
}
COMPLEX: dict[torch.dtype, np.dtype] = {
    torch.complex64: np.dtype(np.complex64),
    torch.complex128: np.dtype(np.complex128),
}
"""Element types of which code computes real and imaginary parts apart."""

_PARTS = {torch.complex64: torch.float32, torch.complex128: torch.float64}

_TORCH_DTYPES = {ours: theirs for theirs, ours in (_DTYPES | COMPLEX).items()}
_CARRIERS: dict[torch.dtype, torch.dtype] = {
    torch.bfloat16: torch.int16,
    torch.float8_e4m3fn: torch.uint8,
    torch.float8_e5m2: torch.uint8,
}
"""Types of the same width through which elements pass that numpy itself lacks."""


def numpy_dtype(dtype: torch.dtype) -> np.dtype:
    """Returns numpy's element type for torch's.

    Raises:
        UnsupportedError: there is no code for tensors of that type.
    """
    found = _DTYPES.get(dtype)
    if found is None:
        raise UnsupportedError(f"has the element type {dtype}, which is not supported")
    return found


def part_dtype(dtype: torch.dtype) -> np.dtype:
    """Returns numpy's element type for torch's; of complex numbers that of the real part.

    Raises:
        UnsupportedError: there is no code for tensors of that type.
    """
    return numpy_dtype(_PARTS.get(dtype, dtype))


def torch_dtype(dtype: np.dtype) -> torch.dtype:
    """Returns torch's element type for numpy's."""
    return _TORCH_DTYPES[dtype]


def as_array(tensor: torch.Tensor) -> np.ndarray:
    """Returns a dense tensor in host memory as an array of the same memory.

    Raises:
        UnsupportedError: its element type, device or layout is not supported.
    """
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        raise UnsupportedError(
            f"is a {tensor.layout} tensor on {tensor.device}: only dense tensors on the CPU are supported"
        )
    dtype, plain = COMPLEX.get(tensor.dtype) or numpy_dtype(tensor.dtype), tensor.detach().resolve_conj().resolve_neg()
    carrier = _CARRIERS.get(tensor.dtype)
    return plain.numpy() if carrier is None else plain.view(carrier).numpy().view(dtype)


def as_tensor(array: np.ndarray) -> torch.Tensor:
    """Returns a writable array as a tensor of the same memory."""
    if not array.size:  # numpy's strides of arrays without elements are 0
        return torch.empty(array.shape, dtype=_TORCH_DTYPES[array.dtype])
    dtype = _TORCH_DTYPES[array.dtype]
    carrier = _CARRIERS.get(dtype)
    if carrier is None:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(np.dtype(f"int{array.itemsize * 8}"))).view(dtype)
