"""Schedules of elementwise kernels: the outer loops are cut into parallel blocks if there is work for more than one."""

from __future__ import annotations

from mlir import ir

from ...target import Target
from .base import Schedule
from .steps import fuse, loop_parameters, match, parallel_tile, script, steps_of


def elementwise(kernel: ir.Operation, target: Target) -> Schedule:
    """Returns the schedule of an elementwise kernel; its parameter `blocks` is the parallel tile of its last op."""
    steps = steps_of(kernel)
    root = steps[-1]
    time = sum(step.nanoseconds(target.machine) for step in steps)
    parallel = [dim for dim in range(len(root.sizes)) if dim not in root.reductions]
    blocks = parallel_tile(root.sizes, parallel, time, 4 * target.vector_bytes)
    parameters = loop_parameters(kernel, target, blocks=blocks)
    lines = []
    if parameters["blocks"]:
        lines = [match("%root", root.number), fuse("%root", "%block", parameters["blocks"], is_parallel=True)]
    return script("elementwise", parameters, lines)
