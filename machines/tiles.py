"""Cycles of register tiles: sums in registers, to which each step adds products of a column and a row."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .caches import near_bytes, weight_bytes
from .machine import Machine
from .paces import paces_of

# Overhead of a step in cycles: loop control; with few registers left to read ahead; per register that is read from the
# second-level cache.
_STEP, _FULL_STEP, _STREAMED = 0.4, 0.8, 0.3

# Part of the latency of the second-level cache for which a step of a tile waits that reads its panels first: measured
# with the recurrent layer of a net for voices on a Sapphire Rapids, 16 cycles for eight registers and 12 for four.
_WAITS = 0.3

# Registers for reading ahead, if there are many.
_AHEAD, _MANY = 6, 32

# Overhead of a tile beside its multiply-adds, in cycles.
TILE_CYCLES = 40


def step_cycles(machine: Machine, rows: int, vectors: int, streamed: int = 0, *, is_near: bool = False) -> float:
    """Returns the cycles of one reduction step.

    Args:
        machine: the machine.
        rows: rows of the tile, each of which broadcasts one element.
        vectors: registers of a row of sums.
        streamed: registers of the weight that come from the second-level cache.
        is_near: whether both operands are in the first-level cache, so that no registers are needed to read ahead.
    """
    is_full = machine.vector_registers >= _MANY and rows * vectors > machine.vector_registers - _AHEAD and not is_near
    loaded = (rows + vectors + streamed) / machine.loads
    overhead = _FULL_STEP if is_full else _STEP
    return max(rows * vectors / machine.fma_units, loaded, machine.fma_latency) + overhead + _STREAMED * streamed


def panels_together(machine: Machine, rows: int, vectors: int, panels: int) -> int:
    """Returns the number of panels that a tile works on at once; it divides `panels`.

    A step waits for the sums of the step before, so a tile of few rows has time for the sums of several panels.
    """
    most = max(1, machine.fma_latency * machine.fma_units // (rows * vectors))
    return max(count for count in range(1, most + 1) if panels % count == 0)


def tile_cycles(
    machine: Machine, rows: int, vectors: int, row_bytes: int, depth: int, panels: int = 1, *, is_first: bool = False
) -> float:
    """Returns the cycles of a step and a panel of a tile.

    Args:
        machine: the machine.
        rows: rows of the tile.
        vectors: registers of a row of sums in a panel.
        row_bytes: size of the row of a panel in bytes.
        depth: number of steps.
        panels: number of panels that the tile works on at once.
        is_first: whether no tile before has brought the panels to the first-level cache.
    """
    own, sums = TILE_CYCLES / depth, panels * vectors
    if panels * row_bytes * depth <= near_bytes(machine) and not is_first:
        return (own + step_cycles(machine, rows, sums)) / panels
    step = step_cycles(machine, rows, sums, sums) + _WAITS * machine.l2_latency * is_first
    return max(own + step, own + panels * row_bytes / paces_of(machine).stream_bytes) / panels


def waiting_cycles(machine: Machine, whole_bytes: int, row_bytes: float) -> float:
    """Returns the cycles that a step waits for a row of a panel of the weight, however few rows use it."""
    return row_bytes / paces_of(machine).far_stream_bytes if whole_bytes > weight_bytes(machine) else 0


def depthwise_cycles(machine: Machine, shape: Sequence[int], kernel: Sequence[int], stride: int, vectors: int) -> float:
    """Returns the cycles of a tile of places, each of `vectors` vectors of channels: neighbours share loads."""
    places, taps = math.prod(shape), kernel[-1]
    loads = places // shape[-1] * ((shape[-1] - 1) * stride + taps) + taps
    step = max(places * taps / machine.fma_units, loads / machine.loads) * vectors + 2
    return step * math.prod(kernel[:-1]) + places * vectors + 6


def most_rows(machine: Machine, vectors: int, most: int) -> int:
    """Returns the number of rows of `vectors` sums that fit the registers beside one row of the weight and a broadcast.

    Args:
        machine: the machine.
        vectors: registers of a row of sums.
        most: maximum number.
    """
    registers, per_row = machine.vector_registers, vectors + machine.multiplies_by_lane
    return max(1, min(most, registers // 2, (registers - vectors - 1) // per_row))
