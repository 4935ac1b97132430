"""Registers of all threads that run an instruction together.

A register is one array with a value per thread. The root frame has all threads of a batch of blocks; where they
diverge, a frame stands for some of the threads of another one, and copies only the registers that it reads. Arrays are
values: an instruction makes a new array, and never changes one that it has read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .kinds import Array

if TYPE_CHECKING:
    from .batch import Batch

Selection = slice | np.ndarray
"""Some threads of a frame: a run of them, or their sorted positions."""

THREAD, BLOCK = "#thread", "#block"
"""Registers of every thread that no PTX can name: its place in the batch, and the place of its block."""

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
"""The registers that every thread finds set, and their bytes."""

_POISON = {np.dtype(np.bool_): False, np.dtype(np.uint8): 0xAD}


class Frame(dict[str, Array]):
    """The registers of some threads.

    Attributes:
        batch: what they run in.
        count: how many threads there are.
        parent: the frame that they are selected from; None for the root.
        selection: which threads of the parent they are.
    """

    __slots__ = ("batch", "count", "parent", "selection")

    def __init__(self, batch: Batch, count: int, parent: Frame | None = None, selection: Selection | None = None):
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
        """The frame of the threads at some positions, which are sorted."""
        return Frame(self.batch, len(positions), self, positions)

    def absorb(self, inner: Frame, names: tuple[str, ...]) -> None:
        """Takes over registers that a frame of some of these threads has changed."""
        for name in names:
            if name in inner:
                merged = self[name].copy()
                merged[inner.selection] = inner[name]
                self[name] = merged

    def store(self, names: frozenset[str] | tuple[str, ...]) -> None:
        """Writes registers back into the parent, whose arrays belong to it alone."""
        parent = self.parent
        if parent is None:
            return
        # A value may be a view of an array that is about to change.
        values = [(name, self[name]) for name in names if name in self]
        values = [(name, value if value.base is None else value.copy()) for name, value in values]
        for name, value in values:
            parent[name][self.selection] = value


def poison(count: int, dtype: np.dtype) -> Array:
    """What a register holds that was never written: values that hardly pass for right ones."""
    pattern = _POISON.get(dtype)
    if pattern is None:
        pattern = int("deadbeefdeadbeef"[: 2 * dtype.itemsize], 16)
    return np.full(count, pattern, dtype)


def selected(parts: list[Selection]) -> Selection:
    """All threads of some selections without common threads, as a run where they are one."""
    if len(parts) == 1:
        return parts[0]
    positions = np.sort(np.concatenate([_positions(part) for part in parts]))
    return as_run(positions)


def as_run(positions: Array) -> Selection:
    """Sorted positions as a slice, where they are one after the other."""
    if len(positions) and positions[-1] - positions[0] + 1 == len(positions):
        return slice(int(positions[0]), int(positions[-1]) + 1)
    return positions


def size_of(selection: Selection) -> int:
    """How many threads a selection has."""
    return selection.stop - selection.start if isinstance(selection, slice) else len(selection)


def _positions(selection: Selection) -> Array:
    if isinstance(selection, slice):
        return np.arange(selection.start, selection.stop)
    return selection


def chosen(selection: Selection, mask: Array) -> Selection:
    """Those threads of a selection for which a mask is true."""
    return as_run(_positions(selection)[mask])
