"""How long a contraction takes with given tiles: a model of multiprocessors, in cycles, for choosing among tiles.

A multiprocessor works on as many blocks at once as its shared memory, registers and threads allow; blocks come
in waves. A block's time is that of its products or of its reads, whichever is longer, and of its beginning and end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...target import Capability
from .tiles import WARP, Piece, Problem, Tiling

# Multiply-adds that a multiprocessor does per cycle, by what they are of; of wgmma, and of other instructions.
_FMA_PER_CYCLE = {80: 64}
_MMA_PER_CYCLE = {80: 1024, 86: 512, 89: 512, 90: 1024, 100: 1024}
_WGMMA_PER_CYCLE = 2048
_RELATIVE = {"f32": 1.0, "tf32": 0.5, "f16": 1.0, "bf16": 1.0}
_BYTES = 2.0
# Bytes that a multiprocessor gets per cycle of what others read as well, and of what comes from memory.
_CACHE_BYTES, _MEMORY_BYTES = 40.0, 16.0
# Cycles before the first products and after the last, for each value that a thread holds, and for each tile of depth.
_START, _PER_SUM, _PER_TILE = 900, 12, 40
# Cycles from asking for what is in memory to having it.
_LATENCY = 700
# Cycles that a launch takes at least.
_LAUNCH = 4000
_BLOCK_SHARED_BYTES = 1024
_MOST_BLOCKS, _MOST_REGISTERS = 32, 255


@dataclass(frozen=True)
class Occupancy:
    """How many blocks a multiprocessor holds.

    Attributes:
        blocks: how many.
        warps: their warps that multiply.
    """

    blocks: int
    warps: int


def registers(tiling: Tiling, pieces: Sequence[Piece] = ()) -> int:
    """About how many registers a thread needs: those of its sums, and of what it copies at a time of the operands."""
    if tiling.method == "wgmma":
        return 168
    copied = sum(
        math.ceil(size * tiling.depth / (piece.width * tiling.threads)) * piece.registers
        for size, piece in zip((tiling.rows, tiling.columns), pieces, strict=False)
    )
    sums = tiling.warp_rows * tiling.warp_columns // WARP
    fragments = (tiling.warp_rows + tiling.warp_columns) // 2 if tiling.method == "mma" else 48
    return sums + fragments + copied + 24


def occupancy(tiling: Tiling, shared_bytes: int, capability: Capability, pieces: Sequence[Piece] = ()) -> Occupancy:
    """How many blocks are on a multiprocessor at once; none where one does not fit, or threads need more registers."""
    needed = registers(tiling, pieces)
    if shared_bytes > capability.shared_bytes or needed > _MOST_REGISTERS:
        return Occupancy(0, 0)
    by_shared = capability.multiprocessor_shared_bytes // (shared_bytes + _BLOCK_SHARED_BYTES)
    per_block = math.ceil(needed / 8) * 8 * tiling.threads
    by_registers = capability.registers // per_block
    by_threads = capability.multiprocessor_threads // tiling.threads
    blocks = max(0, min(by_shared, by_registers, by_threads, _MOST_BLOCKS))
    return Occupancy(blocks, blocks * tiling.warps)


def rate(tiling: Tiling, compute: str, capability: Capability) -> float:
    """Multiply-adds of a multiprocessor per cycle at best."""
    if tiling.method == "fma":
        return _FMA_PER_CYCLE.get(capability.sm, 128)
    relative = _RELATIVE.get(compute, _BYTES)
    if tiling.method == "wgmma":
        return _WGMMA_PER_CYCLE * relative
    return _MMA_PER_CYCLE.get(capability.sm, 1024) * relative


def cycles(
    problem: Problem,
    tiling: Tiling,
    compute: str,
    element_bytes: int,
    shared_bytes: int,
    capability: Capability,
    pieces: Sequence[Piece] = (),
) -> float:
    """About how many cycles the contraction takes; infinite where a block does not fit."""
    held = occupancy(tiling, shared_bytes, capability, pieces)
    if not held.blocks:
        return math.inf
    tiles = math.ceil(problem.rows / tiling.rows) * math.ceil(problem.columns / tiling.columns)
    blocks = tiles * problem.batch
    depth = math.ceil(problem.depth / tiling.depth) * tiling.depth
    waves = math.ceil(blocks / (held.blocks * capability.multiprocessors))
    # On a multiprocessor that is not full, blocks have more of it.
    together = min(held.blocks, math.ceil(blocks / capability.multiprocessors))
    groups = 1 if tiling.method == "wgmma" else 4
    busy = min(1.0, together * tiling.warps / (2 * groups)) * _efficiency(tiling)
    products = together * tiling.rows * tiling.columns * depth / (rate(tiling, compute, capability) * busy)
    reads = together * (tiling.rows + tiling.columns) * depth * element_bytes / _CACHE_BYTES
    fresh = _fresh_bytes(problem, element_bytes) / (_MEMORY_BYTES * capability.multiprocessors)
    sums = tiling.rows * tiling.columns / (tiling.warps * (4 if tiling.method == "wgmma" else 1) * WARP)
    latency = max(_PER_TILE, _LATENCY / (tiling.stages - 1) - (products + reads) * tiling.depth / depth)
    ends = _START + _PER_SUM * sums + latency * depth / tiling.depth
    return max(waves * (max(products, reads) + ends), fresh)


def gathering(problem: Problem, splits: int, capability: Capability) -> float:
    """About how many cycles a launch takes that adds up the sums of so many parts."""
    sums = problem.batch * problem.rows * problem.columns * 4
    return _LAUNCH + (2 * splits + 1) * sums / (_MEMORY_BYTES * capability.multiprocessors)


def _efficiency(tiling: Tiling) -> float:
    """What reading fragments from shared memory leaves of the rate: the more, the squarer and larger a warp's tile."""
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
