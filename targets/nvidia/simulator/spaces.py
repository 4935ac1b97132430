"""Resolution of addresses in state spaces, and of generic addresses in any of them."""

from __future__ import annotations

import numpy as np

from ....runtime.cuda.errors import PtxError, SimulationError
from .addresses import CLUSTER_SHIFT, LOCAL_ORIGIN, PARAM_ORIGIN, SHARED_ORIGIN
from .builder import Builder
from .frame import BLOCK, Frame
from .kinds import Array
from .memory import GlobalMemory, MemoryAccess, Space

_SPACES = {
    "global": "global", "const": "global", "shared": "shared", "shared::cta": "shared", "shared::cluster": "shared",
    "local": "local", "param": "param", "param::entry": "param",
}  # fmt: skip
SPACE_MODIFIERS = (*_SPACES, "unified")
_WINDOWS = (
    ("global", GlobalMemory.ORIGIN),
    ("param", PARAM_ORIGIN),
    ("local", LOCAL_ORIGIN),
    ("shared", SHARED_ORIGIN),
)


def space_of(builder: Builder) -> str:
    """Returns the state space of an instruction: "global", "shared", "local", "param", or "" for generic addresses."""
    return _SPACES.get(builder.one_of(*_SPACES), "")


def located(space: str, frame: Frame, addresses: Array, access: MemoryAccess) -> tuple[Space, Array]:
    """Returns the memory of addresses of a state space, and their offsets in it.

    Raises:
        SimulationError: the addresses are not in that space, or in several spaces.
    """
    if not space:
        space, start = _window(addresses, access)
        addresses = addresses - start if space in ("shared", "local") else addresses
    batch = frame.batch
    if space == "global":
        return batch.memory, addresses - GlobalMemory.ORIGIN
    if space == "param":
        return batch.parameters, addresses - PARAM_ORIGIN
    if space == "local":
        _check_inside(addresses, batch.local_stride, "local", access)
        return batch.local, addresses + frame["#local"]
    return batch.shared, shared_offsets(frame, addresses, access)


def shared_offsets(frame: Frame, addresses: Array, access: MemoryAccess) -> Array:
    """Returns the offsets of shared addresses in the memory of all blocks, including other blocks of the cluster.

    Raises:
        SimulationError: an address is out of bounds.
    """
    batch = frame.batch
    if int(addresses.max(initial=0)) >> CLUSTER_SHIFT == 0:
        _check_inside(addresses, batch.shared_stride, "shared", access)
        return addresses + frame["#shared"]
    ranks, inside = (addresses >> CLUSTER_SHIFT) - 1, addresses & ((1 << CLUSTER_SHIFT) - 1)
    _check_inside(inside, batch.shared_stride, "shared", access)
    size = int(frame["%cluster_nctarank"][0])
    if int(ranks.max()) >= size:
        position = int(np.argmax(ranks))
        raise access.fault(position, int(addresses[position]), f"no block of the cluster has rank {int(ranks.max())}")
    own = frame["%cluster_ctarank"].astype(np.int64)
    blocks = frame[BLOCK] - own + np.where(ranks < 0, own, ranks)
    return blocks * batch.shared_stride + inside


def _check_inside(addresses: Array, size: int, space: str, access: MemoryAccess) -> None:
    if len(addresses) and (int(addresses.min()) < 0 or int(addresses.max()) >= size):
        position = int(np.argmax((addresses < 0) | (addresses >= size)))
        raise access.fault(position, int(addresses[position]), f"out of bounds ({space} memory)")


def _window(addresses: Array, access: MemoryAccess) -> tuple[str, int]:
    """Returns the state space of generic addresses, and the start of its window."""
    low, high = int(addresses.min()), int(addresses.max())
    for space, start in _WINDOWS:
        if low >= start:
            return space, start
        if high >= start:
            raise SimulationError(f"{access.what} has generic addresses in several state spaces", access.line)
    raise access.fault(int(np.argmin(addresses)), low, "out of bounds: in no state space")


def window_start(space: str, line: int) -> int:
    """Returns the offset from an address of a state space to a generic address.

    Raises:
        PtxError: the state space has no generic addresses.
    """
    starts = {"global": 0, "const": 0, "param": 0, "shared": SHARED_ORIGIN, "local": LOCAL_ORIGIN}
    if space not in starts:
        raise PtxError(f"state space {space!r} has no generic addresses", line)
    return starts[space]
