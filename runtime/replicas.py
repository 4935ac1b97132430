"""Training by several processes: each computes the gradients of its own batches, and all take the same steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from .memory import ALIGNMENT, aligned_empty
from .training_step import COUNT, KEY, SUM, WEIGHT, TrainingStep


class Processes(Protocol):
    """Processes that train one model. All of them call the same methods in the same order.

    Attributes:
        rank: the number of this process, from 0.
        size: the number of processes.
    """

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def add(self, array: np.ndarray) -> None:
        """Replaces the contents of an array in C order by the sum over all processes."""
        ...

    def broadcast(self, array: np.ndarray) -> None:
        """Replaces the contents of an array in C order by those in process 0."""
        ...


class MpiGroup:
    """The processes of a communicator of MPI, by mpi4py."""

    def __init__(self, communicator: Any) -> None:
        """Takes a communicator, such as `mpi4py.MPI.COMM_WORLD`."""
        self._communicator = communicator
        self.rank, self.size = int(communicator.Get_rank()), int(communicator.Get_size())

    def add(self, array: np.ndarray) -> None:
        """`MPI_Allreduce` with sums."""
        self._communicator.Allreduce(array.copy(), array)

    def broadcast(self, array: np.ndarray) -> None:
        """`MPI_Bcast`."""
        self._communicator.Bcast(array, 0)


class Replicas:
    """One process of several that hold the same parameters.

    Random choices differ between the processes. Values that a model carries from step to step, such as the running
    means of batch norms, are those of process 0.
    """

    def __init__(self, processes: Processes, held: dict[str, np.ndarray]) -> None:
        """Takes the processes, and the arrays that are kept between calls."""
        self._processes, self._held = processes, held

    def begin(self) -> None:
        """Takes over all arrays of process 0."""
        self._broadcast(sorted(self._held))

    def run(self, step: TrainingStep, batch: Sequence[Any], named: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Runs the forward and the backward pass on the batch of this process, with random choices of its own."""
        key = self._held.get(KEY)
        if key is not None:
            self._held[KEY] = np.array(key * self._processes.size + self._processes.rank, key.dtype)
        try:
            return step(*batch, **named)
        finally:
            if key is not None:
                self._held[KEY] = np.array(key + 1, key.dtype)

    def add_sums(self, trained: Sequence[str], step: TrainingStep) -> None:
        """Adds the sums of gradients of all processes, and takes over what the model carries from process 0."""
        names = [WEIGHT, *(f"{name}{SUM}" for name in trained)]
        arrays = [self._held[name] for name in names]
        for dtype in dict.fromkeys(array.dtype for array in arrays):
            self._add([name for name, array in zip(names, arrays, strict=True) if array.dtype == dtype])
        continued = {info.name for item in step.executables for info in item.outputs} & set(self._held)
        self._broadcast(sorted(continued - {*names, COUNT, KEY}))

    def mean(self, loss: float, weight: float) -> float:
        """The mean of the losses of all processes in proportion to their weights; their sum if all weights are 0.

        The loss of a process whose weight is 0 is the mean over nothing, NaN, and adds nothing to the mean.
        """
        sums = np.array([loss * weight if weight else 0.0, weight, loss])
        self._processes.add(sums)
        return float(sums[0] / sums[1]) if sums[1] else float(sums[2])

    def _add(self, names: Sequence[str]) -> None:
        """Adds arrays of one element type in one call."""
        arrays = [self._held[name] for name in names]
        starts = np.cumsum([0, *(-(-array.nbytes // ALIGNMENT) * ALIGNMENT for array in arrays)])
        together = aligned_empty(int(starts[-1]))
        together[:] = 0
        parts = {
            name: together[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
            for name, array, start in zip(names, arrays, starts[:-1], strict=True)
        }
        for name, part in parts.items():
            part[...] = self._held[name]
        self._processes.add(together.view(arrays[0].dtype))
        self._held |= parts

    def _broadcast(self, names: Sequence[str]) -> None:
        for name in names:
            array = np.array(self._held[name], order="C")
            self._processes.broadcast(array)
            self._held[name] = array
