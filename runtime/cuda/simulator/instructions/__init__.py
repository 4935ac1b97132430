"""What each instruction does. Importing this registers the builders of all."""

from . import barriers, conversions, copies, floats, integers, logic, matrix, mbarrier, memory, warps, wgmma

__all__ = [
    "barriers",
    "conversions",
    "copies",
    "floats",
    "integers",
    "logic",
    "matrix",
    "mbarrier",
    "memory",
    "warps",
    "wgmma",
]
