"""Cost model for the choice of tiles: estimated cycles of a contraction on a GPU.

A multiprocessor runs as many blocks at once as its shared memory, registers and threads allow; blocks run in waves. The
time of a block is the maximum of its products and its reads, plus that of its prologue and epilogue.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .....machines.gpus import THREAD_REGISTERS, WARP, Capability
from .tiles import CopyUnit, Problem, Tiling

# Multiply-adds by type, relative to those of 16-bit floats.
_RELATIVE = {"f32": 1.0, "tf32": 0.5, "f16": 1.0, "bf16": 1.0}
_OF_BYTES = 2.0
"""The same of types of one byte."""
# Cycles of prologue and epilogue per block, per value that a thread holds, and per tile of depth.
_START, _PER_SUM, _PER_TILE = 900, 12, 40
_BLOCK_SHARED_BYTES = 1024
"""Shared memory that the system takes for each block (CUDA C++ Programming Guide, "Shared Memory")."""


@dataclass(frozen=True)
class Occupancy:
    """Number of resident blocks per multiprocessor.

    Attributes:
        blocks: number of blocks.
        warps: number of their multiplying warps.
    """

    blocks: int
    warps: int


def registers(tiling: Tiling, units: Sequence[CopyUnit] = ()) -> int:
    """Returns an estimate of the registers per thread, for its sums, fragments and pending copies of operands."""
    if tiling.method == "wgmma":
        return 168
    copied = sum(
        math.ceil(size * tiling.depth / (unit.width * tiling.threads)) * unit.registers
        for size, unit in zip((tiling.rows, tiling.columns), units, strict=False)
    )
    sums = tiling.warp_rows * tiling.warp_columns // WARP
    fragments = (tiling.warp_rows + tiling.warp_columns) // 2 if tiling.method == "mma" else 48
    return sums + fragments + copied + 24


def occupancy(tiling: Tiling, shared_bytes: int, capability: Capability, units: Sequence[CopyUnit] = ()) -> Occupancy:
    """Returns the resident blocks per multiprocessor; none if a block does not fit, or a thread's registers."""
    needed = registers(tiling, units)
    if shared_bytes > capability.shared_bytes or needed > THREAD_REGISTERS:
        return Occupancy(0, 0)
    by_shared = capability.multiprocessor_shared_bytes // (shared_bytes + _BLOCK_SHARED_BYTES)
    per_block = math.ceil(needed / 8) * 8 * tiling.threads
    by_registers = capability.registers // per_block
    by_threads = capability.multiprocessor_threads // tiling.threads
    blocks = max(0, min(by_shared, by_registers, by_threads, capability.multiprocessor_blocks))
    return Occupancy(blocks, blocks * tiling.warps)


def rate(tiling: Tiling, compute: str, capability: Capability) -> float:
    """Returns the peak multiply-adds per multiprocessor and cycle."""
    if tiling.method == "fma":
        return capability.fma_rate
    relative = _RELATIVE.get(compute, _OF_BYTES)
    if tiling.method == "wgmma":
        return capability.wgmma_rate * relative
    return capability.mma_rate * relative


def cycles(
    problem: Problem,
    tiling: Tiling,
    compute: str,
    element_bytes: int,
    shared_bytes: int,
    capability: Capability,
    units: Sequence[CopyUnit] = (),
) -> float:
    """Returns the estimated cycles of the contraction; infinite if a block does not fit."""
    held = occupancy(tiling, shared_bytes, capability, units)
    if not held.blocks:
        return math.inf
    tiles = math.ceil(problem.rows / tiling.rows) * math.ceil(problem.columns / tiling.columns)
    blocks = tiles * problem.batch
    depth = math.ceil(problem.depth / tiling.depth) * tiling.depth
    waves = math.ceil(blocks / (held.blocks * capability.multiprocessors))
    # If a multiprocessor is not full, each block gets a larger share of it.
    together = min(held.blocks, math.ceil(blocks / capability.multiprocessors))
    groups = 1 if tiling.method == "wgmma" else 4
    busy = min(1.0, together * tiling.warps / (2 * groups)) * _efficiency(tiling)
    products = together * tiling.rows * tiling.columns * depth / (rate(tiling, compute, capability) * busy)
    reads = together * (tiling.rows + tiling.columns) * depth * element_bytes / capability.cache_rate
    fresh = _fresh_bytes(problem, element_bytes) / (capability.memory_rate * capability.multiprocessors)
    sums = tiling.rows * tiling.columns / (tiling.warps * (4 if tiling.method == "wgmma" else 1) * WARP)
    latency = max(
        _PER_TILE, capability.memory_latency / (tiling.stages - 1) - (products + reads) * tiling.depth / depth
    )
    ends = _START + _PER_SUM * sums + latency * depth / tiling.depth
    return max(waves * (max(products, reads) + ends), fresh)


def gathering(problem: Problem, splits: int, capability: Capability) -> float:
    """Returns the estimated cycles of a launch that adds up the sums of `splits` parts."""
    sums = problem.batch * problem.rows * problem.columns * 4
    return capability.launch_cycles + (2 * splits + 1) * sums / (capability.memory_rate * capability.multiprocessors)


def _efficiency(tiling: Tiling) -> float:
    """Returns the share of the peak left by reads of fragments; larger and squarer warp tiles are more efficient."""
    if tiling.method == "wgmma":
        return tiling.columns / (tiling.columns + 24)
    rows, columns = tiling.warp_rows, tiling.warp_columns
    if tiling.method == "fma":
        rows, columns = rows // 4, columns // 8
    harmonic = 2 * rows * columns / (rows + columns)
    return harmonic / (harmonic + (2 if tiling.method == "fma" else 12))


def _fresh_bytes(problem: Problem, element_bytes: int) -> float:
    read = problem.rows * problem.depth + problem.columns * problem.depth
    return problem.batch * (read * element_bytes + problem.rows * problem.columns * element_bytes)
