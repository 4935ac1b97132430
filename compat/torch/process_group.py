"""Processes of `torch.distributed` that train one model together."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from typing import Any

import numpy as np


class TorchGroup:
    """The processes of a group of `torch.distributed`, such as one of the backend gloo."""

    def __init__(self, group: Any = None) -> None:
        """Takes a group; by default, that of all processes.

        Raises:
            RuntimeError: `torch.distributed` is not initialised; it says so.
        """
        import torch.distributed as distributed

        self._distributed, self._group = distributed, group
        self.rank, self.size = distributed.get_rank(group), distributed.get_world_size(group)
        self._first = distributed.get_global_rank(group, 0) if group is not None else 0

    def add(self, array: np.ndarray) -> None:
        """`torch.distributed.all_reduce` with sums."""
        self._distributed.all_reduce(_tensor(array), group=self._group)

    def broadcast(self, array: np.ndarray) -> None:
        """`torch.distributed.broadcast` from the first process of the group."""
        self._distributed.broadcast(_tensor(array), self._first, group=self._group)


def _tensor(array: np.ndarray) -> Any:
    """A tensor of the same memory."""
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
