"""Measures the figures of this machine that descriptions of machines hold.

Rates of float32 and of memory come from `peaks`, the rest from the loops of `measured_loops`.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence

import numpy as np

from ...machines.machine import Machine
from .. import processor
from ..native import orc
from . import peaks
from .figures import MachineFigures
from .measured_loops import CHAIN, SUMS, TILE_PRODUCTS, byte_products, chains, products, tile_products

# Iterations of loops, repetitions of which the fastest counts, loads, and messages between threads: choices for which
# all measurements together take about ten seconds.
_CHAIN_STEPS, _PRODUCT_STEPS, _REPEATS = 1 << 16, 1 << 18, 7
_TILE_STEPS = 1 << 14
_LOADS, _MOST_LOADS = 1 << 16, 1 << 20
_HANDOVERS, _WAKES = 20_000, 2_000
_LINE = 128
"""Size in bytes of the longest cache line of any family; two addresses this far apart never share a line."""
_DIGITS = 4
"""Significant digits of figures: a choice, more than repeated measurements agree in."""


def measure(machine: Machine, cpus: Sequence[int]) -> MachineFigures:
    """Measures this machine, in some seconds.

    Args:
        machine: description of its family, with the sizes of its own caches.
        cpus: a CPU of each core that this process may use.
    """
    one = peaks.measure(cpus[:1], peaks.FAR_BYTES)
    every = one if len(cpus) == 1 else peaks.measure(cpus, peaks.FAR_BYTES)
    loops = _Loops()
    started, before = time.perf_counter(), peaks.used_by_others()
    clock = loops.clock()
    sizes = machine.l1_bytes // 2, machine.l2_bytes // 2, 4 * machine.l2_bytes
    rates = {f"l{level}_rate": one.read_rate(size) / 1e9 / clock for level, size in enumerate(sizes, 1)}
    latencies = {f"l{level}_latency": loops.latency(size) * clock for level, size in enumerate(sizes, 1)}
    found = {
        "cores": len(cpus),
        "clock": clock,
        "wide_clock": one.flops / 1e9 / (2 * machine.lanes(4) * machine.fma_units),
        **loops.relative_rates(machine),
        **rates,
        "memory_rate": one.read_rate(peaks.FAR_BYTES) / 1e9,
        "memory_total": max(one.read_rate(peaks.FAR_BYTES), every.read_rate(peaks.FAR_BYTES)) / 1e9,
        **latencies,
        "memory_latency": loops.latency(peaks.FAR_BYTES),
    }
    if len(cpus) > 1:
        found |= {"handover_ns": loops.handover(cpus), "wake_ns": loops.wake(cpus)}
    used = peaks.used_by_others() - before
    is_disturbed = peaks.is_busy(used, time.perf_counter() - started) or one.is_disturbed or every.is_disturbed
    return MachineFigures({name: float(f"{value:.{_DIGITS}g}") for name, value in found.items()}, is_disturbed)


class _Loops:
    """The loops, compiled."""

    def __init__(self) -> None:
        self._code = orc.load_objects({})
        self._code.add_ir(chains())

    def _function(self, name: str, *kinds: type) -> Callable[..., object]:
        return ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(self._code.address(name))

    def clock(self) -> float:
        """Returns the clock in GHz: an exclusive or takes a cycle."""
        chain = self._function("chain", ctypes.c_int64, ctypes.c_int64)
        return CHAIN * _CHAIN_STEPS / (1e9 * _fastest(lambda: chain(_CHAIN_STEPS, 1)))

    def relative_rates(self, machine: Machine) -> dict[str, float]:
        """Returns the multiply-adds of other types relative to those of float32, by fields of `Machine`.

        The products of a matrix unit are counted per cycle.
        """
        features, vector_bytes = processor.features() or frozenset(), machine.vector_bytes
        kinds = {"float": ("f32", 4), "double": ("double_rate", 8)}
        if features & {"avx512fp16", "fullfp16"}:
            kinds["half"] = "half_rate", 2
        if byte_products(features, vector_bytes // 4) is not None:
            kinds["i32"] = "byte_rate", 1
        if "avx512bf16" in features:
            kinds["bfloat"] = "brain_rate", 2
        rates = {name: self._rate(name, vector_bytes, element, size) for element, (name, size) in kinds.items()}
        single = rates.pop("f32")
        found = {name: rate / single for name, rate in rates.items()}
        if features >= processor.TILE_FEATURES:
            self._code.add_ir(tile_products("matrix_rate"))
            run = self._function("matrix_rate", ctypes.c_int64)
            in_tiles = TILE_PRODUCTS * _TILE_STEPS / _fastest(lambda: run(_TILE_STEPS))
            per_cycle = machine.lanes(4) * machine.fma_units
            found["matrix_rate"] = in_tiles / (single * SUMS * _PRODUCT_STEPS) * per_cycle
        return found

    def _rate(self, name: str, vector_bytes: int, element: str, size: int) -> float:
        """Returns the products per second of elements of `size` bytes, for a register and a single step."""
        lane = 4 if element in ("i32", "bfloat") else size
        self._code.add_ir(products(name, vector_bytes // lane, element))
        run = self._function(name, ctypes.c_int64)
        return vector_bytes // size / _fastest(lambda: run(_PRODUCT_STEPS))

    def latency(self, size: int) -> float:
        """Returns the nanoseconds of a dependent load from `size` bytes, in random order."""
        chase = self._function("chase", ctypes.c_void_p, ctypes.c_int64)
        count = max(2, size // _LINE)
        order = np.random.default_rng(0).permutation(count)
        memory = np.zeros((count, _LINE // 8), np.int64)
        memory[order, 0] = memory.ctypes.data + _LINE * np.roll(order, -1)
        loads = min(_MOST_LOADS, max(_LOADS, 2 * count))
        return 1e9 * _fastest(lambda: chase(memory.ctypes.data, loads)) / loads

    def handover(self, cpus: Sequence[int]) -> float:
        """Returns the nanoseconds for a value to reach a waiting core and an answer to return."""
        lines = np.zeros((2, _LINE), np.int64)

        def run() -> float:
            lines[:] = 0
            ends = lines[0].ctypes.data, lines[1].ctypes.data
            return self._pair(cpus, "spin", "serve", ends, ends[::-1], _HANDOVERS)

        return 1e9 * min(run() for _ in range(_REPEATS)) / _HANDOVERS

    def wake(self, cpus: Sequence[int]) -> float:
        """Returns the nanoseconds to wake a thread that sleeps on another core."""
        room = np.zeros((2, _LINE), np.int64)
        library = ctypes.CDLL(None)
        ends = room[0].ctypes.data, room[1].ctypes.data
        for end, value in zip(ends, (0, 1), strict=True):
            library.sem_init(ctypes.c_void_p(end), 0, value)
        seconds = min(self._pair(cpus, "sleep", "sleep", ends, ends[::-1], _WAKES) for _ in range(_REPEATS))
        return 1e9 * seconds / (2 * _WAKES)

    def _pair(
        self, cpus: Sequence[int], first: str, second: str, mine: Sequence[int], other: Sequence[int], count: int
    ) -> float:
        """Returns the seconds of two functions that run at the same time, each on its core."""
        kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        work = [
            lambda: self._function(first, *kinds)(*mine, count),
            lambda: self._function(second, *kinds)(*other, count),
        ]
        return peaks.together(work, cpus[:2], repeats=1)


def _fastest(work: Callable[[], object]) -> float:
    work()
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
