"""Schedules of pooling: parallel blocks of positions. Padding stays outside, as loops look through it."""

from __future__ import annotations

from mlir import ir

from ...target import Target
from .base import Schedule
from .steps import loop_parameters, match, parallel_tile, script, steps_of, tile_alone

_ANY = "!transform.any_op"


def pooling(kernel: ir.Operation, target: Target) -> Schedule:
    """Returns the schedule of a pooling kernel; its parameter `blocks` is the parallel tile of its last op."""
    steps = steps_of(kernel)
    root = steps[-1]
    # Each result element reads its window.
    time = sum(step.nanoseconds(target.machine) for step in steps)
    parallel = [dim for dim in range(len(root.sizes)) if dim not in root.reductions]
    # The innermost dimension stays whole, so that its vectors are as long as possible.
    blocks = parallel_tile(root.sizes, parallel[:-1], time, 1)
    parameters = loop_parameters(kernel, target, blocks=blocks)
    if not parameters["blocks"]:
        return script("pooling", parameters, [])
    lines = [match("%root", root.number), tile_alone("%root", "%block", parameters["blocks"])]
    for step in reversed(steps[:-1]):
        producer = f"%step{step.number}"
        lines.append(match(producer, step.number))
        lines.append(
            f"{producer}_in, {producer}_loop = transform.structured.fuse_into_containing_op {producer} into"
            f" {'%block_loop' if step is steps[-2] else f'%step{step.number + 1}_loop'}"
            f" : ({_ANY}, {_ANY}) -> ({_ANY}, {_ANY})"
        )
    return script("pooling", parameters, lines)
