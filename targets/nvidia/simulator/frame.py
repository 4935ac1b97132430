"""Registers of all threads that execute an instruction together.

A register is one array with a value per thread. The root frame holds all threads of a batch of blocks. After
divergence, a frame holds a subset of another frame's threads and copies only the registers that it reads. Arrays are
immutable values: an instruction creates a new array and never changes one that it has read.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from .async_copies import PendingCopies
from .barriers import Barriers
from .bulk_stores import BulkStores
from .clusters import ClusterBarriers
from .kinds import Array
from .mbarriers import Mbarriers
from .memory import GlobalMemory, MemoryAccess, Space
from .observer import Observer
from .products import Products
from .races import GlobalWrites, SharedRaces

Selection = slice | np.ndarray
"""Threads of a frame: a slice, or sorted indices."""

THREAD, BLOCK = "#thread", "#block"
"""Registers of every thread without a name in PTX: the indices of the thread and of its block in the batch."""

SPECIAL_REGISTERS: dict[str, int] = {
    **{
        f"%{name}.{axis}": 4
        for name in (
            "tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid",
        )
        for axis in "xyz"
    },
    **dict.fromkeys(
        (
            "%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid", "%clock", "%clock_hi", "%lanemask_eq",
            "%lanemask_lt", "%lanemask_le", "%lanemask_ge", "%lanemask_gt", "%cluster_ctarank", "%cluster_nctarank",
            "%is_explicit_cluster", "%dynamic_smem_size", "%total_smem_size",
        ),
        4,
    ),
    "%clock64": 8,
    "%globaltimer": 8,
}  # fmt: skip
"""Special registers, with their sizes in bytes."""

_POISON = {np.dtype(np.bool_): False, np.dtype(np.uint8): 0xAD}


class ThreadScheduler(Protocol):
    """Resumes threads; see `Scheduler`."""

    def wake(self, threads: Array) -> None:
        """Resumes threads that are parked or about to be parked."""
        ...

    def release(self, threads: Array) -> None:
        """Resumes parked threads."""
        ...


class ThreadBatch(Protocol):
    """The blocks that are simulated together, as instructions see them; `Batch` documents the members."""

    blocks: Array
    memory: GlobalMemory
    parameters: Space
    writes: GlobalWrites | None
    observer: Observer | None
    shared: Space
    local: Space
    shared_stride: int
    local_stride: int
    barriers: Barriers
    scheduler: ThreadScheduler
    races: SharedRaces | None
    products: Products
    copies: PendingCopies
    stores: BulkStores
    cluster_barriers: ClusterBarriers
    mbarriers: Mbarriers

    def existing_lanes(self, threads: Array) -> Array: ...
    def meet(self, key: int, threads: Array, needed: Array) -> None: ...
    def gather(self, key: int, threads: Array, groups: Array, size: int) -> None: ...
    def cluster_of(self, threads: Array) -> Array: ...
    def read_by_products(self, offsets: Array, width: int, threads: Array, access: MemoryAccess) -> None: ...
    def fenced(self, threads: Array) -> None: ...
    def joined(self, barrier: str, arriving: Array, passing: Array, released: Array) -> None: ...
    def synchronised(self, threads: Array) -> None: ...
    def watch_read(
        self, memory: Space, offsets: Array, width: int, frame: Frame, access: MemoryAccess, *, ordered: bool
    ) -> None: ...
    def watch_write(
        self, memory: Space, offsets: Array, width: int, frame: Frame, access: MemoryAccess, *, ordered: bool
    ) -> None: ...
    def barriers_made(self, offsets: Array, threads: Array, access: MemoryAccess) -> None: ...
    def barrier_used(self, offsets: Array, frame: Frame, access: MemoryAccess) -> None: ...
    def arriving(self, places: Array, threads: Array) -> None: ...
    def passing(self, places: Array, threads: Array) -> None: ...
    def poison(self, name: str) -> Array: ...
    def describe(self, thread: int) -> str: ...


class Frame(dict[str, Array]):
    """The registers of some threads.

    Attributes:
        batch: the batch of the threads.
        count: number of threads.
        parent: the frame from which the threads are selected; None for the root.
        selection: the selected threads of the parent.
    """

    __slots__ = ("batch", "count", "parent", "selection")

    def __init__(self, batch: ThreadBatch, count: int, parent: Frame | None = None, selection: Selection | None = None):
        super().__init__()
        self.batch = batch
        self.count = count
        self.parent = parent
        self.selection = selection

    def __missing__(self, name: str) -> Array:
        if self.parent is None:
            value = self.batch.poison(name)
        else:
            value = self.parent[name][self.selection]
        self[name] = value
        return value

    def narrowed(self, positions: Array) -> Frame:
        """Returns the frame of the threads at the given sorted positions."""
        return Frame(self.batch, len(positions), self, positions)

    def absorb(self, inner: Frame, names: tuple[str, ...]) -> None:
        """Copies back the registers that a frame of some of these threads has changed."""
        for name in names:
            if name in inner:
                merged = self[name].copy()
                merged[inner.selection] = inner[name]
                self[name] = merged

    def store(self, names: frozenset[str] | tuple[str, ...]) -> None:
        """Writes registers back to the parent, in place: its arrays are not shared."""
        parent = self.parent
        if parent is None:
            return
        # A value may be a view of an array that is about to be modified.
        values = [(name, self[name]) for name in names if name in self]
        values = [(name, value if value.base is None else value.copy()) for name, value in values]
        for name, value in values:
            parent[name][self.selection] = value


def poison(count: int, dtype: np.dtype) -> Array:
    """Returns the contents of a register that was never written: values that are unlikely to be correct by accident."""
    pattern = _POISON.get(dtype)
    if pattern is None:
        pattern = int("deadbeefdeadbeef"[: 2 * dtype.itemsize], 16)
    return np.full(count, pattern, dtype)


def selected(parts: list[Selection]) -> Selection:
    """Returns the union of disjoint selections, as a slice if it is contiguous."""
    if len(parts) == 1:
        return parts[0]
    positions = np.sort(np.concatenate([_positions(part) for part in parts]))
    return as_run(positions)


def as_run(positions: Array) -> Selection:
    """Returns sorted positions as a slice if they are contiguous."""
    if len(positions) and positions[-1] - positions[0] + 1 == len(positions):
        return slice(int(positions[0]), int(positions[-1]) + 1)
    return positions


def size_of(selection: Selection) -> int:
    """Returns the number of threads of a selection."""
    return selection.stop - selection.start if isinstance(selection, slice) else len(selection)


def _positions(selection: Selection) -> Array:
    if isinstance(selection, slice):
        return np.arange(selection.start, selection.stop)
    return selection


def chosen(selection: Selection, mask: Array) -> Selection:
    """Returns the threads of a selection for which a mask is true."""
    return as_run(_positions(selection)[mask])
