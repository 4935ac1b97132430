"""A target of another package: a simulated matrix accelerator, the cube unit, beside the CPU.

Read in this order: `machine` (sizes and rates), `isa` (instructions), `encoding` and `assembly` (their two forms),
`hazards` (what a legal stream is), `timeline` (cycles), `simulator` (results); then `blocking` and `emit` (from a
contraction to a stream), `kernels` (from a linalg kernel to a contraction), `passes`, `backend` and `runtime` (how
Stepwell uses them).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .backend import CubeBackend
    from .runtime import CubeLoader


def backend() -> CubeBackend:
    """Returns what generates code for targets `cube:...`."""
    from .backend import CubeBackend  # needs MLIR, which running a program does not

    return CubeBackend()


def loader() -> CubeLoader:
    """Returns what runs programs for targets `cube:...`."""
    from .runtime import CubeLoader

    return CubeLoader()
