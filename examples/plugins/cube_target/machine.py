"""Sizes and rates of the cube unit. They are a design in the range of small NPUs, not those of a product."""

from __future__ import annotations

from dataclasses import dataclass

TILE = 16
"""Rows, columns and depth of one tile product, which the unit computes in one cycle."""


@dataclass(frozen=True)
class CubeMachine:
    """A matrix accelerator: a unit for tile products, two scratchpads, and a DMA engine for each direction.

    The engines work at the same time, each in the order of its own instructions. Instruction fetch is not modelled.

    Attributes:
        name: the name after `cube:` in a target.
        clock: cycles per second.
        operand_bytes: size of the scratchpad from which the unit reads both operands.
        sum_bytes: size of the scratchpad of the unit's sums, which are 4 bytes each.
        beat_bytes: size of a line of memory, of which each DMA engine moves one per cycle. It moves the lines that
            hold a box, each once, whatever the order of the elements in them.
        load_latency: cycles from the last beat of a load until its signal: a round trip to memory.
        compute_latency: cycles from the last tile product of an instruction until its signal: the unit's pipeline.
        store_latency: cycles from the last beat of a store until its signal.
    """

    name: str
    clock: float
    operand_bytes: int
    sum_bytes: int
    beat_bytes: int
    load_latency: int
    compute_latency: int
    store_latency: int


V1 = CubeMachine(
    name="v1",
    clock=1e9,
    operand_bytes=512 * 1024,
    sum_bytes=128 * 1024,
    beat_bytes=64,
    load_latency=200,
    compute_latency=16,
    store_latency=200,
)

MACHINES = {machine.name: machine for machine in (V1,)}
"""All versions of the unit, by name."""
