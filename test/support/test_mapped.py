"""Pages of mapped files: released, and read again on demand."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from stepwell.support.mapped import forget_library, forget_pages
from stepwell.support.packages import llvm_file

_STATUS = Path("/proc/self/smaps")


def _resident(name: str) -> int:
    """Returns the bytes of a mapped file that are in this process's memory."""
    total, inside = 0, False
    for line in _STATUS.read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            inside = line.endswith(name)
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1]) << 10
    return total


@pytest.mark.skipif(not _STATUS.exists(), reason="the system does not say what is in memory")
def test_pages_are_released_and_come_back(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    np.arange(1 << 20, dtype=np.float32).tofile(path)
    weights = np.memmap(path, np.uint8, mode="r").view(np.float32).reshape(1024, 1024)
    assert weights.sum(dtype=np.float64) > 0 and _resident("weights") == 4 << 20
    forget_pages(weights.T[5:])
    assert _resident("weights") == 0
    assert weights[1, 1] == 1025


@pytest.mark.skipif(not _STATUS.exists(), reason="the system does not say what is in memory")
def test_code_of_a_library_is_released_and_comes_back() -> None:
    path = llvm_file("lib/libLLVM.so")
    library = ctypes.CDLL(str(path))
    library.LLVMGetHostCPUName.restype = ctypes.c_char_p
    name, before = library.LLVMGetHostCPUName(), _resident(path.name)
    dropped = forget_library(path)
    assert dropped > 0 and _resident(path.name) == before - dropped > 0, "addresses that were relocated stay"
    assert library.LLVMGetHostCPUName() == name
    assert forget_library(path.with_name("no_such_library.so")) == 0


def test_arrays_that_are_not_mapped_stay() -> None:
    for value in (np.ones((1024, 1024), np.float32)[1:], 3.0, None):
        forget_pages(value)
