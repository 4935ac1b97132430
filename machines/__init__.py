"""Machines: what the compiler knows of the processors that code is for, and what work costs on them.

This is the lowest floor beside `sizes`: no MLIR, no LLVM.
"""
