"""Schedules of sorting and of running totals: rows are parallel as they are lowered, and one is done in order."""

from __future__ import annotations

from mlir import ir

from ...target import Target
from .base import Schedule
from .steps import loop_parameters, script


def in_order(kernel: ir.Operation, target: Target) -> Schedule:
    """The schedule of a kernel of which nothing is tiled."""
    return script("in-order", loop_parameters(kernel, target), [])
