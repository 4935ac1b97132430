"""Blocks that are simulated together: their threads, memory and special registers.

Threads are ordered by warp, block and lane, so that the warps of one role in all blocks are contiguous.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ....machines.gpus import WARP
from .async_copies import PendingCopies
from .barriers import Barriers
from .bulk_stores import BulkStores
from .clusters import ClusterBarriers
from .frame import BLOCK, THREAD, Frame, Selection, ThreadScheduler, as_run, poison
from .kernel import PreparedKernel
from .kinds import Array
from .mbarriers import BYTES, Mbarriers
from .memory import UNDEFINED, GlobalMemory, MemoryAccess, Space
from .observer import Observer
from .products import Products
from .races import GlobalWrites, SharedRaces


@dataclass(frozen=True)
class GridGeometry:
    """Launch geometry.

    Attributes:
        grid: blocks in x, y and z.
        block: threads per block in x, y and z.
        cluster: blocks per cluster in x, y and z.
        shared_bytes: dynamic shared memory per block.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0

    @property
    def threads(self) -> int:
        """Number of threads per block."""
        return math.prod(self.block)

    @property
    def blocks(self) -> int:
        """Number of blocks of the grid."""
        return math.prod(self.grid)

    @property
    def clusters(self) -> tuple[int, int, int]:
        """Clusters of the grid, in x, y and z."""
        x, y, z = (grid // cluster for grid, cluster in zip(self.grid, self.cluster, strict=True))
        return x, y, z


@dataclass
class Checks:
    """Checks of a simulation beyond bounds and alignment.

    Attributes:
        shared_races: whether to detect unordered accesses of a byte of shared memory by two threads, at least one of
            them a write.
        double_writes: whether to detect writes of one byte of global memory by two threads of a launch, except atomics.
        undefined_reads: whether to detect reads of memory that was never written.
        step_limit: maximum number of executed basic blocks of a batch; a launch that exceeds it counts as endless.
    """

    shared_races: bool = True
    double_writes: bool = True
    undefined_reads: bool = True
    step_limit: int = 2_000_000


@dataclass
class Batch:
    """Blocks that are simulated together.

    Attributes:
        kernel: the kernel that they run.
        geometry: geometry of the whole launch.
        blocks: numbers of the blocks in the launch, in whole clusters and by rank.
        memory: memory of the device.
        parameters: contents of the kernel parameters.
        checks: the enabled checks.
        writes: record of the launch's writes to global memory; None if not checked.
        observer: receives every access, or None.
    """

    kernel: PreparedKernel
    geometry: GridGeometry
    blocks: Array
    memory: GlobalMemory
    parameters: Space
    checks: Checks
    writes: GlobalWrites | None = None
    observer: Observer | None = None
    shared: Space = field(init=False)
    local: Space = field(init=False)
    shared_stride: int = field(init=False)
    local_stride: int = field(init=False)
    root: Frame = field(init=False)
    barriers: Barriers = field(init=False)
    scheduler: ThreadScheduler = field(init=False)

    def __post_init__(self) -> None:
        geometry, count = self.geometry, len(self.blocks)
        self.warps = -(-geometry.threads // WARP)
        self.count = count * self.warps * WARP
        shared_bytes = self.kernel.shared_bytes + geometry.shared_bytes
        self.shared_stride = -(-shared_bytes // 128) * 128 + 128
        undefined = not self.checks.undefined_reads
        self.shared = Space("shared", count * self.shared_stride, allow_undefined=undefined)
        self.shared.state.reshape(count, -1)[:, :shared_bytes] = UNDEFINED
        self.local_stride = -(-self.kernel.local_bytes // 16) * 16
        self.local = Space("local", self.count * self.local_stride, allow_undefined=undefined)
        self.local.state[:] = UNDEFINED
        self.root = Frame(self, self.count)
        self._set_special_registers()
        self.barriers = Barriers(count, geometry.threads)
        self.races = None
        if self.checks.shared_races and shared_bytes:
            self.races = SharedRaces(count, self.warps, self.shared.size, self.kernel.shared_granule)
        self.products = Products(self.races)
        self.copies = PendingCopies(self.count, self.shared, self.races)
        self.stores = BulkStores(self.count)
        members = math.prod(geometry.cluster)
        self.cluster_barriers = ClusterBarriers(count // members, self.count, members * geometry.threads)
        self._group_waits: dict[int, tuple[Array, Array]] = {}
        self.mbarriers = Mbarriers(self.shared, self.shared_stride)
        self._warp_waits: dict[int, tuple[Array, Array]] = {}

    def existing(self) -> Selection:
        """Returns the existing threads: the last warp of a block may have fewer than 32."""
        inside = np.arange(self.count) // (WARP * len(self.blocks)) * WARP + np.arange(self.count) % WARP
        return as_run(np.flatnonzero(inside < self.geometry.threads))

    def existing_lanes(self, threads: Array) -> Array:
        """Returns, for each thread, a mask of the lanes that exist in its warp."""
        warp = threads // (WARP * len(self.blocks))
        held = np.minimum(self.geometry.threads - warp * WARP, WARP).astype(np.uint64)
        return ((np.uint64(1) << held) - np.uint64(1)).astype(np.uint32)

    def meet(self, key: int, threads: Array, needed: Array) -> None:
        """Makes threads wait at an instruction for others of their warps.

        Args:
            key: key of the instruction.
            threads: the threads.
            needed: for each thread, a mask of the lanes that it waits for.
        """
        earlier = self._warp_waits.pop(key, (threads[:0], needed[:0]))
        threads, needed = np.concatenate([earlier[0], threads]), np.concatenate([earlier[1], needed])
        slots, rows = np.unique(threads // WARP, return_inverse=True)
        present = np.zeros(len(slots), np.uint32)
        np.bitwise_or.at(present, rows, np.uint32(1) << (threads % WARP).astype(np.uint32))
        complete = needed & ~present[rows] == 0
        self.scheduler.wake(threads[complete])
        if not complete.all():
            self._warp_waits[key] = threads[~complete], needed[~complete]

    def gather(self, key: int, threads: Array, groups: Array, size: int) -> None:
        """Makes threads wait at an instruction for all `size` threads of their group."""
        earlier = self._group_waits.pop(key, (threads[:0], groups[:0]))
        threads, groups = np.concatenate([earlier[0], threads]), np.concatenate([earlier[1], groups])
        _, rows, counts = np.unique(groups, return_inverse=True, return_counts=True)
        complete = counts[rows] == size
        self.scheduler.wake(threads[complete])
        if not complete.all():
            self._group_waits[key] = threads[~complete], groups[~complete]

    def cluster_of(self, threads: Array) -> Array:
        """Returns the cluster of each thread, numbered within the batch."""
        return threads // WARP % len(self.blocks) // math.prod(self.geometry.cluster)

    def read_by_products(self, offsets: Array, width: int, threads: Array, access: MemoryAccess) -> None:
        """Records reads by asynchronous products; `threads` holds the first thread of each warp group."""
        if self.races is not None:
            self.races.read_by_engine(offsets, width, threads, access)

    def fenced(self, threads: Array) -> None:
        """Makes writes that threads see visible to asynchronous reads, and their barriers to the copy engine."""
        self.mbarriers.publish(threads)
        if self.races is not None:
            self.races.fence_proxies(threads)

    def joined(self, barrier: str, arriving: Array, passing: Array, released: Array) -> None:
        """Records that threads have arrived at a barrier and that others are released."""
        if self.races is not None:
            self.races.release(barrier, arriving)
            self.races.acquire(barrier, np.concatenate([passing, released]))

    def synchronised(self, threads: Array) -> None:
        """Records a synchronization of threads with the others of their warps."""
        if self.races is not None:
            self.races.synchronise_warps(threads)

    def watch_read(
        self, memory: Space, offsets: Array, width: int, frame: Frame, access: MemoryAccess, *, ordered: bool
    ) -> None:
        """Records a read; `ordered` marks synchronizing accesses, which cannot race."""
        if memory is self.shared and self.races is not None and not ordered:
            self.races.read(offsets, width, frame[THREAD], access)

    def watch_write(
        self, memory: Space, offsets: Array, width: int, frame: Frame, access: MemoryAccess, *, ordered: bool
    ) -> None:
        """Records a write; `ordered` marks synchronizing accesses, which cannot race."""
        if ordered:
            return
        if memory is self.shared and self.races is not None:
            self.races.write(offsets, width, frame[THREAD], access)
        elif memory is self.memory and self.writes is not None:
            self.writes.write(offsets, width, frame["#writer"], access)

    def barriers_made(self, offsets: Array, threads: Array, access: MemoryAccess) -> None:
        """Records the initialization or invalidation of barriers in shared memory."""
        if self.races is not None:
            self.races.write(offsets, BYTES, threads, access)

    def barrier_used(self, offsets: Array, frame: Frame, access: MemoryAccess) -> None:
        """Records a use of barriers in shared memory, which must come after their initialization."""
        own = offsets // self.shared_stride == frame[BLOCK]
        if self.races is not None and own.all():
            self.races.read(offsets, BYTES, frame[THREAD], access)

    def arriving(self, places: Array, threads: Array) -> None:
        """Records arrivals at barriers in shared memory."""
        self._per_barrier(places, threads, lambda races, name, some: races.release(name, some))

    def passing(self, places: Array, threads: Array) -> None:
        """Records that threads have passed barriers in shared memory."""
        self._per_barrier(places, threads, lambda races, name, some: races.acquire(name, some))

    def _per_barrier(self, places: Array, threads: Array, record: Callable[[SharedRaces, str, Array], None]) -> None:
        """Calls `record` for each barrier of the threads' own blocks; races across blocks are not detected."""
        if self.races is None or not len(threads):
            return
        blocks = threads // WARP % len(self.blocks)
        own = places * BYTES // self.shared_stride == blocks
        inside = places * BYTES % self.shared_stride
        for address in np.unique(inside[own]):
            record(self.races, f"mbarrier {address}", threads[own & (inside == address)])

    def settle(self) -> None:
        """Completes all asynchronous copies when no thread can proceed otherwise."""
        self.mbarriers.deliver_all(self.scheduler)

    def poison(self, name: str) -> Array:
        """Returns the contents of a register that was never written.

        Raises:
            KeyError: it is a special register that the simulator does not support.
        """
        return poison(self.count, self.kernel.storage(name))

    def describe(self, thread: int) -> str:
        """Returns the name of a thread, given its index in the batch."""
        root = self.root
        x, y, z = (int(root[f"%ctaid.{axis}"][thread]) for axis in "xyz")
        return f"thread {self.thread_name(thread)} of block ({x}, {y}, {z})"

    def thread_name(self, thread: int) -> str:
        """Returns a thread's coordinates in its block."""
        x, y, z = (int(self.root[f"%tid.{axis}"][thread]) for axis in "xyz")
        return str(x) if self.geometry.block[1:] == (1, 1) else f"({x}, {y}, {z})"

    def _set_special_registers(self) -> None:
        geometry, blocks = self.geometry, len(self.blocks)
        warp, block, lane = (axis.reshape(-1) for axis in np.indices((self.warps, blocks, WARP)))
        thread = warp * WARP + lane
        size = math.prod(geometry.cluster)
        cluster, rank = np.divmod(self.blocks, size)
        inside, outside = _coordinates(rank, geometry.cluster), _coordinates(cluster, geometry.clusters)
        root = self.root
        root[THREAD], root[BLOCK] = np.arange(self.count), block
        registers = {"laneid": lane, "warpid": warp, "nwarpid": self.warps, "cluster_ctarank": rank[block]}
        registers |= {"cluster_nctarank": size, "is_explicit_cluster": int(size > 1), "smid": 0}
        registers["nsmid"] = self.kernel.multiprocessors
        registers |= {"dynamic_smem_size": geometry.shared_bytes, "gridid": 0}
        registers |= {"total_smem_size": self.kernel.shared_bytes + geometry.shared_bytes}
        registers |= {"clock": 0, "clock_hi": 0, "lanemask_eq": 1 << lane, "lanemask_lt": (1 << lane) - 1}
        registers |= {"lanemask_le": (2 << lane) - 1, "lanemask_ge": -(1 << lane), "lanemask_gt": -(2 << lane)}
        for axis, tid in zip("xyz", _coordinates(thread, geometry.block), strict=True):
            registers[f"tid.{axis}"] = tid
        for place, axis in enumerate("xyz"):
            registers[f"ntid.{axis}"], registers[f"nctaid.{axis}"] = geometry.block[place], geometry.grid[place]
            registers[f"cluster_ctaid.{axis}"] = inside[place][block]
            registers[f"clusterid.{axis}"] = outside[place][block]
            registers[f"cluster_nctaid.{axis}"] = geometry.cluster[place]
            registers[f"nclusterid.{axis}"] = geometry.clusters[place]
            registers[f"ctaid.{axis}"] = (outside[place] * geometry.cluster[place] + inside[place])[block]
        for name, values in registers.items():
            root[f"%{name}"] = np.broadcast_to(np.asarray(values).astype(np.uint32), (self.count,)).copy()
        for name in ("%clock64", "%globaltimer"):
            root[name] = np.zeros(self.count, np.uint64)
        root["#shared"] = block * np.int64(self.shared_stride)
        root["#writer"] = (self.blocks[block] * geometry.threads + thread + 1).astype(np.int32)
        root["#local"] = np.arange(self.count) * np.int64(self.local_stride)


def _coordinates(linear: Array, dims: tuple[int, int, int]) -> tuple[Array, Array, Array]:
    return linear % dims[0], linear // dims[0] % dims[1], linear // (dims[0] * dims[1])
