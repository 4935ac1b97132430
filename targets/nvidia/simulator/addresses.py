"""Layout of addresses and threads, as the simulator's parts share it."""

from __future__ import annotations

SHARED_ORIGIN, LOCAL_ORIGIN, PARAM_ORIGIN = 1 << 36, 1 << 37, 1 << 38
"""Start addresses of the windows of these state spaces in the generic address space."""
CLUSTER_SHIFT = 24
"""Bit position of the block's rank plus one in a shared address; 0 stands for the thread's own block."""
