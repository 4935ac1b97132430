"""What each instruction does. Importing this registers the builders of all."""

from . import barriers, conversions, floats, integers, logic, memory, warps

__all__ = ["barriers", "conversions", "floats", "integers", "logic", "memory", "warps"]
