"""What each instruction does. Importing this registers the builders of all."""

from . import barriers, conversions, copies, floats, integers, logic, matrix, memory, warps

__all__ = ["barriers", "conversions", "copies", "floats", "integers", "logic", "matrix", "memory", "warps"]
