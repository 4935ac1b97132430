"""Schedules of movement: each copy is tiled separately, into parallel blocks of its outer loops if it is large."""

from __future__ import annotations

from mlir import ir

from ...target import Target
from ..loops.transpose import transposed_inputs
from .base import Schedule
from .steps import LinalgStep, loop_parameters, match, parallel_tile, script, steps_of, tile_alone


def movement(kernel: ir.Operation, target: Target) -> Schedule:
    """Returns the schedule of a movement kernel; its parameter `blocks` holds one parallel tile per copy."""
    steps = steps_of(kernel)
    tiles = [_tile(step, target) for step in steps]
    parameters = loop_parameters(kernel, target, blocks=tiles)
    lines = []
    for step, tile in zip(steps, parameters["blocks"], strict=True):
        if tile:
            lines += [
                match(f"%copy{step.number}", step.number),
                tile_alone(f"%copy{step.number}", f"%block{step.number}", tile),
            ]
    return script("movement", parameters, lines)


def _tile(step: LinalgStep, target: Target) -> list[int]:
    """Returns a parallel tile, or [] inside a parallel loop.

    Dimensions transposed in registers are cut last, longer ones first.
    """
    if step.op.parent is not None and step.op.parent.name == "scf.forall":
        return []
    dims = range(len(step.sizes))
    transposed = {} if step.generic is None else transposed_inputs(step.generic)
    sides = sorted({*transposed.values(), dims[-1]} if transposed else (), key=lambda dim: -step.sizes[dim])
    order = [*(dim for dim in dims if dim not in sides), *sides]
    return parallel_tile(step.sizes, order, step.nanoseconds(target.machine), target.vector_bytes, sides)
