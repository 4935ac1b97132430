"""Instructions by which each thread computes a result from its own operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .....support.wording import quantity
from ..builder import Builder, SimulatedStep
from ..frame import Frame
from ..kinds import Array


def elementwise(
    builder: Builder, function: Callable[..., Array], sources: Sequence[str], result: str | None = None
) -> SimulatedStep:
    """Builds the step `d = function(a, b, ...)`.

    Args:
        builder: the instruction; its first operand is the destination.
        function: the computed function.
        sources: kinds of the sources.
        result: kind of the destination; that of the first source by default.
    """
    operands = builder.operands
    if len(operands) != len(sources) + 1:
        raise builder.error(f"takes {quantity(len(sources), 'source')}, not {len(operands) - 1}")
    write = builder.write(operands[0], result or sources[0])
    readers = [builder.read(operand, kind) for operand, kind in zip(operands[1:], sources, strict=True)]
    if len(readers) == 1:
        (only,) = readers
        return lambda frame: write(frame, function(only(frame)))
    if len(readers) == 2:
        left, right = readers
        return lambda frame: write(frame, function(left(frame), right(frame)))

    def step(frame: Frame) -> None:
        write(frame, function(*(reader(frame) for reader in readers)))

    return step
