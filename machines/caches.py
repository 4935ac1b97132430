"""Parts of the caches that the compiler counts on, and limits that follow from them.

Other data takes the rest: a cache is shared with code, stacks, other tensors and other processes. The parts were found
on `families.REFERENCE`, with 48 KiB, 2 MiB and 36 MiB.
"""

from __future__ import annotations

from .machine import Machine

L2_WAYS = 16
"""Associativity assumed of a second-level cache; most have 8 to 20 ways."""


def near_bytes(machine: Machine) -> int:
    """Returns the bytes that stay in the first-level cache beside what a loop streams through it: 32 KiB of 48."""
    return machine.l1_bytes * 2 // 3


def row_bytes(machine: Machine) -> int:
    """Returns the maximum bytes of a row that is prefetched to the first-level cache as a whole: 16 KiB of 48."""
    return machine.l1_bytes // 3


def cached_bytes(machine: Machine) -> int:
    """Returns the bytes that stay in the second-level cache: 1 MiB of 2."""
    return machine.l2_bytes // 2


def way_bytes(machine: Machine) -> int:
    """Returns the bytes of one way of the second-level cache: addresses this far apart share a set."""
    return machine.l2_bytes // L2_WAYS


def block_bytes(machine: Machine) -> int:
    """Returns the bytes that stay in the second-level cache while as many others pass: 512 KiB of 2 MiB."""
    return machine.l2_bytes // 4


def weight_bytes(machine: Machine) -> int:
    """Returns the bytes of a weight or a row that stays in the second-level cache beside all other data: an eighth."""
    return machine.l2_bytes // 8


def resident_bytes(machine: Machine) -> int:
    """Returns the bytes of all weights of a program that stay in the second-level cache between calls: 1.5 MiB of 2."""
    return machine.l2_bytes * 3 // 4


def kept_bytes(machine: Machine) -> int:
    """Returns the bytes that may still be in the last-level cache some kernels later: 8 MiB of 36."""
    return machine.l3_bytes * 2 // 9


def stream_bytes(machine: Machine) -> int:
    """Returns the bytes from which a tensor leaves all caches before the next kernel reads it: 24 MiB of 36."""
    return machine.l3_bytes * 2 // 3
