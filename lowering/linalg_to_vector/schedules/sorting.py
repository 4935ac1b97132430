"""Schedules of sorting and of running totals: rows are already parallel when lowered, and sequential inside."""

from __future__ import annotations

from mlir import ir

from ...target import Target
from .base import Schedule
from .steps import loop_parameters, script


def in_order(kernel: ir.Operation, target: Target) -> Schedule:
    """Returns a schedule that tiles nothing."""
    return script("in-order", loop_parameters(kernel, target), [])
