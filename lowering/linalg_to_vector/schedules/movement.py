"""Schedules of movement: every copy by itself, in parallel blocks of its outer loops if it is large."""

from __future__ import annotations

from mlir import ir

from ...target import Target
from .base import Schedule
from .steps import loop_parameters, match, parallel_tile, script, steps_of, tile_alone


def movement(kernel: ir.Operation, target: Target) -> Schedule:
    """The schedule of a movement kernel: `blocks`, one parallel tile per copy."""
    steps = steps_of(kernel)
    tiles = [
        parallel_tile(step.sizes, range(len(step.sizes)), step.nanoseconds(), target.vector_bytes) for step in steps
    ]
    parameters = loop_parameters(kernel, target, blocks=tiles)
    lines = []
    for step, tile in zip(steps, parameters["blocks"], strict=True):
        if tile:
            lines += [
                match(f"%copy{step.number}", step.number),
                tile_alone(f"%copy{step.number}", f"%block{step.number}", tile),
            ]
    return script("movement", parameters, lines)
