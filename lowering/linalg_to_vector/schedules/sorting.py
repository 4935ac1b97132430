"""Schedules of sorting: rows are parallel as they are lowered, and what is done to one is in order."""

from __future__ import annotations

from mlir import ir

from ...target import Target
from .base import Schedule
from .steps import loop_parameters, script


def sorting(kernel: ir.Operation, target: Target) -> Schedule:
    """The schedule of a sorting kernel: nothing is tiled."""
    return script("sorting", loop_parameters(kernel, target), [])
