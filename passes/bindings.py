"""The core of MLIR's bindings without the rest of the package `mlir.ir`, which imports numpy.

The classes are the same ones. To be imported before `mlir.ir` it loads the library with symbols that are looked up when
they are first used, which halves the time that takes.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ..runtime.interrupts import held_interrupts

if TYPE_CHECKING:  # the core has no types of its own
    from mlir import ir
else:
    _flags = sys.getdlopenflags() if hasattr(sys, "getdlopenflags") else None
    if _flags is not None:
        sys.setdlopenflags(os.RTLD_LAZY)
    try:
        # The extension imports Python modules while it is imported, and crashes where one of these is interrupted.
        with held_interrupts():
            from mlir._mlir_libs._mlir import ir
    finally:
        if _flags is not None:
            sys.setdlopenflags(_flags)

__all__ = ["ir"]
