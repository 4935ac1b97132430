"""Memory that calls of compiled code do not need: that of weights which are its constants, and of the compiler.

The contents of weights move to files, which are mapped in their place.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import collections
import tempfile
from collections.abc import Iterable
from pathlib import Path

import torch
from mlir import _mlir_libs
from torch.utils.weak import WeakTensorKeyDictionary

from ...runtime.cache.cache import default_folder
from ...support.errors import SlowWarning
from ...support.mapped import forget_library
from ...support.packages import llvm_file
from ...support.warning import warn

_LEAST_BYTES = 1 << 16
"""Size of the smallest tensor that moves: a mapping takes whole pages, and the kernel limits their number."""

_moved: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
"""Addresses of the tensors that have moved."""


def release(tensors: Iterable[torch.Tensor]) -> int:
    """Moves the contents of tensors from memory to files without names, from which they are mapped when they are read.

    The tensors keep their values. Their addresses change, and they no longer share memory with other tensors. Tensors
    that share memory with each other, have gaps, or are small, stay in memory.

    Args:
        tensors: the tensors.

    Returns:
        The number of bytes that moved.

    Warns:
        SlowWarning: the files cannot be written; the remaining tensors stay in memory.
    """
    found = [tensor for tensor in {id(tensor): tensor for tensor in tensors}.values() if tensor.layout == torch.strided]
    owners = collections.Counter(_place(tensor) for tensor in found)
    alone = [tensor for tensor in found if owners[_place(tensor)] == 1 and _can_move(tensor)]
    if not alone:
        return 0
    folder = default_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            return sum(_move(tensor, Path(place) / str(number)) for number, tensor in enumerate(alone))
    except OSError as error:
        warn(f"weights stay in memory, since no file can be written in {folder}: {error.strerror}", SlowWarning)
        return 0


def release_compiler() -> int:
    """Releases the memory of the compiler's libraries, which a later compile reads from their files again.

    Returns:
        The number of bytes released.
    """
    bindings = Path(_mlir_libs.__file__).parent
    return forget_library(bindings / "libMLIRPythonCAPI.so") + forget_library(llvm_file("lib/libLLVM.so"))


def _place(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _can_move(tensor: torch.Tensor) -> bool:
    storage = tensor.untyped_storage()
    return (
        type(tensor.data) is torch.Tensor
        and tensor.device.type == "cpu"
        and _moved.get(tensor) != storage.data_ptr()
        and not storage.is_shared()
        and storage.nbytes() == tensor.numel() * tensor.element_size() >= _LEAST_BYTES
    )


def _move(tensor: torch.Tensor, path: Path) -> int:
    """Moves one tensor, and returns its bytes. The file's space is freed with its mapping, since the name goes."""
    old = tensor.untyped_storage()
    with path.open("wb") as file:
        file.write(_bytes(old))
    new = torch.UntypedStorage.from_file(str(path), False, old.nbytes())
    mapped = torch.empty(0, dtype=tensor.dtype)
    tensor.data = mapped.set_(new, 0, tensor.size(), tensor.stride())  # type: ignore[call-overload]
    _moved[tensor] = new.data_ptr()
    return new.nbytes()


def _bytes(storage: torch.UntypedStorage) -> memoryview:
    return memoryview(torch.empty(0, dtype=torch.uint8).set_(storage).numpy())  # type: ignore[call-overload]
