"""The cost function: time of work from its operations, its bytes by level of memory, its calls and its threads.

A roofline with overheads: operations and transfers overlap, the longer one counts; calls and the sharing of loops among
threads add to it. Schedules choose by the costs of their parts (`tiles`, `convolutions`), in the paces that whole
kernels reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .caches import near_bytes
from .machine import Machine
from .paces import paces_of

MEMORY = 4
"""The level of memory, after the caches 1 to 3."""

_FEWEST_THREADS = 2
"""Number of threads that a parallel loop must pay for: how many there will be is known only in a call."""

_BLOCK_NS, _ELEMENTWISE_BLOCK_NS, _TRANSFORM_BLOCK_NS = 2_000, 1_500, 2_600
"""Minimum nanoseconds of a block of a parallel loop, by what it computes."""

MOST_BLOCKS = 32
"""Maximum number of blocks. They are distributed in runs, so small ones cost little, and this number keeps the threads
of most machines equally busy."""

_SMALL_NS = 30_000
"""Nanoseconds up to which work stays on one core if its operands are likely in that core's cache: another core would
need as long to get them from there as its part of the work takes."""


_TILE_SHARE = 0.4
"""Part of a matrix unit's peak that products reach: measured with 512x768 by 768x768 bytes on a Xeon with AMX."""

_FOLDING_CYCLES = 8
"""Cycles to add up the lanes of a vector and store the sum: three to four dependent additions."""


@dataclass(frozen=True)
class Work:
    """The work of a loop nest.

    Attributes:
        flops: floating-point operations, two per multiply-add.
        element: type that is multiplied: f64, f32, f16, or i8 for bytes.
        vector_share: part of the lanes of a vector that the operations use.
        moved: bytes read and written, by the level that they come from: 1 to 3 for caches, or `MEMORY`.
        calls: number of kernels.
    """

    flops: float = 0.0
    element: str = "f32"
    vector_share: float = 1.0
    moved: Mapping[int, float] = field(default_factory=dict)
    calls: int = 0


@dataclass(frozen=True)
class Cost:
    """Times of work in nanoseconds.

    Attributes:
        compute: time of the operations.
        transfer: time of the transfers.
        overhead: time of calls and threads.
    """

    compute: float
    transfer: float
    overhead: float

    @property
    def nanoseconds(self) -> float:
        """Time of the work."""
        return max(self.compute, self.transfer) + self.overhead

    @property
    def bound(self) -> str:
        """The longer part: "compute" or "memory"."""
        return "compute" if self.compute >= self.transfer else "memory"


def cost_of(machine: Machine, work: Work, threads: int = 1) -> Cost:
    """Returns the cost of work on a number of threads at the machine's peaks."""
    in_bytes = max(machine.byte_rate, _TILE_SHARE * machine.tile_rate)
    relative = in_bytes if work.element == "i8" else machine.relative_rate(work.element)
    used = max(1 / machine.lanes(4), min(1.0, work.vector_share))
    compute = work.flops / (machine.flops * relative * used * threads)
    transfer = sum(size / rate_of(machine, level, threads) for level, size in work.moved.items())
    overhead = machine.call_ns * work.calls
    if threads > 1:
        overhead += paces_of(machine).threads_ns * work.calls
    return Cost(compute, transfer, overhead)


def rate_of(machine: Machine, level: int, threads: int = 1) -> float:
    """Returns the bytes per nanosecond of reads from a level of memory by a number of threads, each on its core."""
    if level == MEMORY:
        return min(machine.memory_rate * threads, max(machine.memory_rate, machine.memory_total))
    return (machine.l1_rate, machine.l2_rate, machine.l3_rate)[level - 1] * machine.clock * threads


def level_of(machine: Machine, size: float, threads: int = 1) -> int:
    """Returns the level that holds `size` bytes which threads use again and again, each its part."""
    part = size / threads
    if part <= machine.l1_bytes:
        return 1
    if part <= machine.l2_bytes / machine.l2_cores:
        return 2
    return 3 if size <= machine.l3_bytes else MEMORY


def kernel_ns(machine: Machine, flops: float, moved: float) -> float:
    """Returns the time of a kernel on one core, roughly: it tells one microsecond from a hundred."""
    paces = paces_of(machine)
    return max(flops / paces.kernel_flops, moved / paces.kernel_bytes)


def pays_for_threads(machine: Machine, flops: float, moved: float) -> bool:
    """Returns whether threads shorten a product.

    The operands of a small one are in the cache of the core that made them. Other cores get their part from there,
    which their part of the work must be worth.
    """
    paces = paces_of(machine)
    if moved / paces.handed_bytes >= _SMALL_NS:
        return True
    part = 1 / _FEWEST_THREADS
    return flops / paces.small_flops * part >= paces.threads_ns + moved * part / paces.handed_bytes


def more_ns_of_sums(machine: Machine, rows: int, depth: int, size: int) -> float:
    """Returns the nanoseconds by which sums along `depth` take longer than a kernel of contractions, for one column.

    Sums read both operands for each multiply-add. The rows are read again for each column, from the second-level cache
    if they do not stay in the first.

    Args:
        machine: the machine.
        rows: number of rows.
        depth: number of products that are added up.
        size: bytes of an element.
    """
    vector = 2 / machine.loads
    if rows * depth * size > near_bytes(machine):
        vector += machine.vector_bytes / machine.l2_rate
    more = depth / machine.lanes(size) * (vector - 1 / machine.fma_units)
    return rows * (more + _FOLDING_CYCLES) / machine.wide_clock


def product_blocks(machine: Machine, flops: float) -> int:
    """Returns the useful number of parallel blocks of a product."""
    return max(1, min(MOST_BLOCKS, int(flops // (_BLOCK_NS * paces_of(machine).kernel_flops))))


def transform_blocks(machine: Machine, moved: float) -> int:
    """Returns the useful number of parallel blocks of a transform that moves these bytes."""
    return int(moved // (_TRANSFORM_BLOCK_NS * paces_of(machine).moved_bytes))


def elementwise_blocks(nanoseconds: float) -> int:
    """Returns the useful number of parallel blocks of elementwise work that takes this long on one core."""
    return int(nanoseconds // _ELEMENTWISE_BLOCK_NS) if nanoseconds >= _SMALL_NS else 1


def elementwise_ns(machine: Machine, moved: float, costly: float) -> float:
    """Returns the time of elementwise work on one core: bytes that it moves, and elements of functions such as exp."""
    paces = paces_of(machine)
    return moved / paces.moved_bytes + costly / paces.costly
