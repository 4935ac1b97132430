"""Semantics of the instructions; importing this package registers all builders."""

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
