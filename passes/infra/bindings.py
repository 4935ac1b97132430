"""The core of MLIR's bindings without the rest of the package `mlir.ir`, which imports numpy.

The classes are the same. Import this module before `mlir.ir`: it loads the shared library with lazy symbol binding,
which halves the load time.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ...support.interrupts import held_interrupts

if TYPE_CHECKING:  # the core has no type stubs
    from mlir import ir
else:
    _flags = sys.getdlopenflags() if hasattr(sys, "getdlopenflags") else None
    if _flags is not None:
        sys.setdlopenflags(os.RTLD_LAZY)
    try:
        # The extension imports Python modules during its own import, and crashes if an interrupt arrives there.
        with held_interrupts():
            from mlir._mlir_libs._mlir import ir
    finally:
        if _flags is not None:
            sys.setdlopenflags(_flags)

__all__ = ["ir"]
