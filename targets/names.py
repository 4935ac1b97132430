"""Names of the built-in targets, which can be checked without LLVM and MLIR."""

from __future__ import annotations

from collections.abc import Mapping

from ..lowering.target_names import X86_LEVELS
from ..machines.gpus import GPUS

NAMES: Mapping[str, tuple[str, ...]] = {
    "cpu": ("cpu", "cpu:NAME"),
    "x86_64": X86_LEVELS,
    "aarch64": ("aarch64", "aarch64:NAME"),
    "cuda": tuple(f"cuda:{name}" for name in GPUS),
}
"""Names of targets by family; `cpu` is this machine's."""
