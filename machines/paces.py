"""`Paces`: the speed at which one core does the kinds of work that kernels consist of.

The numbers were measured with whole kernels of the packaged models on `families.REFERENCE`. On another machine each is
scaled by the figure of the machine that bounds it: products by multiply-adds per second, copies by the memory's
bandwidth. A level, which stands for many machines, has the paces of the reference.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, fields
from typing import Any

from .families import REFERENCE
from .machine import Machine

_BOUND, _IS_INVERSE = "bound", "is_inverse"


def _as(value: float, bound: str) -> Any:
    """Declares a number that is proportional to a figure of the machine."""
    return field(default=value, metadata={_BOUND: bound, _IS_INVERSE: False})


def _per(value: float, bound: str) -> Any:
    """Declares a time in nanoseconds that is inversely proportional to a figure of the machine."""
    return field(default=value, metadata={_BOUND: bound, _IS_INVERSE: True})


@dataclass(frozen=True)
class Paces:
    """Paces of one core; per nanosecond, unless they are times or say otherwise.

    Attributes:
        product_flops: operations of a large product or convolution, transformed ones included.
        planar_flops: operations of a product of a weight with planes.
        small_flops: operations of a product whose operands are in the core's caches.
        kernel_flops: operations of any kernel that takes about a microsecond.
        strip_cycles: cycles of register tiles in the products of a Winograd strip.
        transformed: elements that a Winograd transform makes.
        costly: elements of functions such as exp.
        transposed: elements that a transpose moves.
        window_vectors: vectors that a window over a plane reads and adds up.
        kernel_bytes: bytes that any kernel of about a microsecond moves.
        moved_bytes: bytes that an elementwise kernel moves.
        handed_bytes: bytes that a core reads from another core's cache.
        planar_bytes: bytes that a window over planes moves.
        cold_weight_bytes: bytes of weights from beyond the second-level cache.
        stacked_bytes, copied_bytes: bytes that are copied in order to be stacked, and otherwise.
        stream_bytes: bytes per cycle of a panel of weights from the second-level cache, however early it is prefetched.
        far_stream_bytes: the same from beyond that cache.
        shared_stream_bytes: the same from beyond that cache if several tiles share the panel.
        reread_ns: time per byte of weights that the image before has read.
        strip_reread_ns: time per byte of weights that the strip before has read, in the second-level cache.
        far_reread_ns: the same for the bytes that exceed that cache.
        spilled_ns: time per byte of a working set, for every doubling beyond its part of the second-level cache.
        row_ns: overhead of a row of a plane.
        threads_ns: time to share a loop among threads that wait for it, and to finish it.
        parallel_ns: minimum time of a kernel whose loops are shared among threads.
        shared_ns: minimum time of all such kernels of a call in which waiting threads take part.
        woken_ns: minimum time of them for which sleeping threads are woken.
    """

    product_flops: float = _as(200.0, "flops")
    planar_flops: float = _as(180.0, "flops")
    small_flops: float = _as(150.0, "flops")
    kernel_flops: float = _as(100.0, "flops")
    strip_cycles: float = _as(2.6, "wide_clock")
    transformed: float = _as(16.0, "elements")
    costly: float = _as(1.5, "elements")
    transposed: float = _as(4.0, "clock")
    window_vectors: float = _as(2.5, "clock")
    kernel_bytes: float = _as(20.0, "l3_bytes_per_ns")
    moved_bytes: float = _as(25.0, "l3_bytes_per_ns")
    handed_bytes: float = _as(25.0, "l3_bytes_per_ns")
    planar_bytes: float = _as(40.0, "l2_bytes_per_ns")
    cold_weight_bytes: float = _as(10.0, "memory_rate")
    stacked_bytes: float = _as(5.0, "memory_rate")
    copied_bytes: float = _as(10.0, "memory_rate")
    stream_bytes: float = _as(32.0, "l2_rate")
    far_stream_bytes: float = _as(10.0, "l3_rate")
    shared_stream_bytes: float = _as(16.0, "l3_rate")
    reread_ns: float = _per(0.02, "l2_bytes_per_ns")
    strip_reread_ns: float = _per(0.002, "l2_bytes_per_ns")
    far_reread_ns: float = _per(0.05, "l3_bytes_per_ns")
    spilled_ns: float = _per(0.0225, "l3_bytes_per_ns")
    row_ns: float = _per(4.0, "clock")
    threads_ns: float = _as(500.0, "handover_ns")
    parallel_ns: float = _as(2_000.0, "handover_ns")
    shared_ns: float = _as(10_000.0, "handover_ns")
    woken_ns: float = _as(200_000.0, "wake_ns")


@functools.lru_cache(maxsize=64)
def paces_of(machine: Machine) -> Paces:
    """Returns the paces of one core of a machine."""
    if machine.is_level:
        return Paces()
    scaled = {}
    for item in fields(Paces):
        ratio = getattr(machine, item.metadata[_BOUND]) / getattr(REFERENCE, item.metadata[_BOUND])
        scaled[item.name] = item.default / ratio if item.metadata[_IS_INVERSE] else item.default * ratio
    return Paces(**scaled)
