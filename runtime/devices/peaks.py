"""Measures the machine's limits: fused multiply-adds per second in registers, and memory bandwidth.

Both are loops in LLVM IR, compiled like all of Stepwell's code, and run by one thread per core at the same time.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .. import processor
from ..cache.cache import Cache
from ..cache.keys import key_of
from ..memory import aligned_empty
from ..native import orc

_ACCUMULATORS = 12
"""Number of independent chains: two units with a latency of five cycles need ten, and AVX2 has 16 registers."""
_BLOCK = 512
"""Bytes per iteration of loops over memory: eight vectors of AVX-512."""
_BYTES_PER_RUN = 4e8
"""Bytes that a run of a loop moves: a choice; at 10 GB/s it takes 40 ms."""
_EXPECTED_STEPS = 5e8
"""Expected number of multiply-adds of `add` per second: two per cycle at 3 GHz."""
_ADD_REPEATS, _COPY_REPEATS = 24, 8
"""Repetitions of which the fastest counts, of additions and of loops over memory: a choice."""
_VERSION = "1"
"""Version of the measuring method."""
_MAX_USED = 0.2
"""CPU seconds per second that other processes may use during a measurement; an idle system uses less than 0.05."""
_SIZES = tuple(1 << shift for shift in (15, 17, 19, 20, 21, 22, 24, 26, 28))
FAR_BYTES = _SIZES[-1]
"""The largest size that is measured: memory, as most machines have smaller caches."""


@dataclass(frozen=True)
class Peaks:
    """The limits of a number of cores together.

    Attributes:
        threads: number of cores.
        flops: float32 operations per second, two per fused multiply-add.
        copy: pairs (bytes, bytes per second) of copies; both count bytes read plus bytes written.
        read: the same pairs of reads.
        is_disturbed: whether other processes used the machine during the measurement, so that the rates are too low.
    """

    threads: int
    flops: float
    copy: Sequence[tuple[float, float]]
    read: Sequence[tuple[float, float]]
    is_disturbed: bool = False

    def read_rate(self, size: float) -> float:
        """Returns the bytes per second of reads of `size` bytes in total."""
        return _at(self.read, size)

    def copy_rate(self, size: float) -> float:
        """Returns the bytes per second of a copy that reads and writes `size` bytes in total."""
        return _at(self.copy, size)

    def seconds(self, flops: float, size: float) -> float:
        """Returns the minimum time in seconds of `flops` operations on `size` bytes, at the bandwidth for that size."""
        return max(flops / self.flops, size / self.rate(size))

    def is_compute_bound(self, flops: float, size: float) -> bool:
        """Returns whether work is bound by its operations rather than by the bytes it moves."""
        return flops / self.flops > size / self.rate(size)

    def rate(self, size: float) -> float:
        """Returns the bytes per second at which `size` bytes can be moved."""
        return max(_at(self.copy, size), _at(self.read, size))

    @staticmethod
    def of(record: Mapping[str, Any]) -> Peaks:
        """Reads the record that `dataclasses.asdict` and JSON made."""
        copy, read = ([(float(size), float(rate)) for size, rate in record[name]] for name in ("copy", "read"))
        return Peaks(
            int(record["threads"]), float(record["flops"]), copy, read, bool(record.get("is_disturbed", False))
        )

    def better(self, other: Peaks) -> Peaks:
        """Returns the better values of two measurements."""
        copy, read = (
            [(size, max(rate, rival)) for (size, rate), (_, rival) in zip(ours, theirs, strict=True)]
            for ours, theirs in ((self.copy, other.copy), (self.read, other.read))
        )
        is_disturbed = self.is_disturbed and other.is_disturbed
        return Peaks(self.threads, max(self.flops, other.flops), copy, read, is_disturbed)


def _at(curve: Sequence[tuple[float, float]], size: float) -> float:
    sizes, rates = zip(*curve, strict=True)
    return float(np.interp(math.log2(max(size, 1)), np.log2(sizes), rates))


def known(threads: int, cache: Cache | None) -> Peaks:
    """Returns the peaks of `threads` cores of this machine; measures them once, in a second or two, and caches them.

    Measurements that other processes disturbed are not cached.

    Args:
        threads: number of cores; at most all that this process may use.
        cache: where to store the peaks; None for no cache.
    """
    found = kept(threads, cache)
    if found is not None:
        return found
    chosen = _cpus()[:threads]
    made = measure(chosen, _BYTES_PER_RUN / 8)
    if cache is not None and not made.is_disturbed:
        cache.put("peaks", _key(chosen), json.dumps(asdict(made)).encode())
    return made


def kept(threads: int, cache: Cache | None) -> Peaks | None:
    """Returns the cached peaks; None if they have not been measured."""
    data = cache.get("peaks", _key(_cpus()[:threads])) if cache is not None else None
    return None if data is None else Peaks.of(json.loads(bytes(data)))


def _key(cpus: Sequence[int]) -> str:
    return key_of(_VERSION, *map(str, orc.host_cpu()[:1]), str(len(cpus)))


def _cpus() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def measure(cpus: Sequence[int], bytes_per_go: float = _BYTES_PER_RUN) -> Peaks:
    """Measures the peaks of these CPUs together; the calling process must be allowed to use them.

    Args:
        cpus: numbers of the CPUs.
        bytes_per_go: minimum number of bytes moved by each timed run.
    """
    width = lanes()
    code = orc.load_objects({})
    code.add_ir(_additions(width) + _copies(width) + _reads(width))
    start, used_before = time.perf_counter(), used_by_others()
    add = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(code.address("add"))
    steps = 1 << 19
    flops = steps * 2 * _ACCUMULATORS * width * len(cpus)
    seconds = together([lambda: add(steps)] * len(cpus), cpus, _ADD_REPEATS)
    copy = [(size, _copy_rate(code, size, cpus, bytes_per_go)) for size in _SIZES]
    read = [(size, _read_rate(code, size, cpus, bytes_per_go)) for size in _SIZES]
    is_disturbed = is_busy(used_by_others() - used_before, time.perf_counter() - start)
    return Peaks(len(cpus), flops / seconds, copy, read, is_disturbed)


def is_busy(used: float, seconds: float) -> bool:
    """Returns whether CPU seconds that other processes used disturb a measurement of this duration."""
    return used > _MAX_USED * seconds


def used_by_others() -> float:
    """Returns the CPU seconds that all other processes have used so far; 0 if the system does not report them."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    except (OSError, ValueError):
        return 0.0
    used = user + nice + system + irq + softirq + steal
    return used / os.sysconf("SC_CLK_TCK") - time.process_time()


def multiply_adds() -> Callable[[float], float]:
    """Returns a function that measures one core's present peak: takes a duration in seconds, returns flop/s.

    A core's clock falls while it multiplies, and rises again within milliseconds. Measured right after other work, this
    is the peak that the work could have reached.
    """
    width = lanes()
    code = orc.load_objects({})
    code.add_ir(_additions(width))

    def rate(seconds: float) -> float:
        # `code` stays loaded because this function refers to it.
        add = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(code.address("add"))
        steps = max(1, int(seconds * _EXPECTED_STEPS))
        start = time.perf_counter()
        add(steps)
        return steps * 2 * _ACCUMULATORS * width / (time.perf_counter() - start)

    return rate


def lanes() -> int:
    """Returns the number of float32 elements in the widest vector register that kernels use."""
    if processor.architecture() != "x86_64":
        return 4
    features = orc.host_cpu()[1]
    return 16 if "avx512f" in features else 8 if "avx" in features else 4


def _read_rate(code: orc.OrcCode, size: int, cpus: Sequence[int], bytes_per_go: float) -> float:
    loop = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(code.address("read"))
    part = size // len(cpus) // _BLOCK * _BLOCK
    buffers = [aligned_empty(part) for _ in cpus]
    for buffer in buffers:
        buffer.fill(0)
    passes = max(1, int(bytes_per_go // size))
    work = [lambda buffer=buffer: loop(buffer.ctypes.data, part, passes) for buffer in buffers]
    return part * len(cpus) * passes / together(work, cpus, _COPY_REPEATS)


def _copy_rate(code: orc.OrcCode, size: int, cpus: Sequence[int], bytes_per_go: float) -> float:
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    loop = kind(code.address("copy"))
    part = size // 2 // len(cpus) // _BLOCK * _BLOCK
    buffers = [(aligned_empty(part), aligned_empty(part)) for _ in cpus]
    for pair in buffers:
        for array in pair:
            array.fill(1)
    passes = max(1, int(bytes_per_go // size))

    def by_loop(source: np.ndarray, target: np.ndarray) -> Callable[[], object]:
        return lambda: loop(target.ctypes.data, source.ctypes.data, part, passes)

    def by_library(source: np.ndarray, target: np.ndarray) -> Callable[[], object]:
        return lambda: [np.copyto(target, source) for _ in range(passes)]

    # The C library copies large blocks faster, because its stores bypass the caches.
    seconds = min(together([way(*pair) for pair in buffers], cpus, _COPY_REPEATS) for way in (by_loop, by_library))
    return 2 * part * len(cpus) * passes / seconds


def together(work: Sequence[Callable[[], object]], cpus: Sequence[int], repeats: int) -> float:
    """Returns the seconds of the fastest of several runs of all of `work` at once, each on its CPU."""
    times = np.zeros((len(work), repeats, 2))
    barrier = threading.Barrier(len(work))

    def run(index: int) -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, [cpus[index]])
        work[index]()
        for repeat in range(repeats):
            barrier.wait()
            start = time.perf_counter()
            work[index]()
            times[index, repeat] = start, time.perf_counter()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return float((times[..., 1].max(axis=0) - times[..., 0].min(axis=0)).min())


def _additions(lanes: int) -> str:
    """Returns IR with independent chains of fused multiply-adds that stay in registers."""
    kind = f"<{lanes} x float>"
    half = f"<{', '.join(['float 0.5'] * lanes)}>"
    chains = range(_ACCUMULATORS)
    phis = "\n".join(f"  %a{i} = phi {kind} [ {half}, %entry ], [ %b{i}, %loop ]" for i in chains)
    steps = "\n".join(
        f"  %b{i} = call {kind} @llvm.fma.v{lanes}f32({kind} %a{i}, {kind} {half}, {kind} {half})" for i in chains
    )
    sums = "\n".join(f"  %s{i} = fadd {kind} %b{i}, {f'%s{i - 1}' if i else half}" for i in chains)
    last = f"{sums}\n  %r = extractelement {kind} %s{_ACCUMULATORS - 1}, i32 0\n  ret float %r"
    declared = f"declare {kind} @llvm.fma.v{lanes}f32({kind}, {kind}, {kind})"
    return f"{declared}\n{counted_loop('float @add', phis, steps, last)}"


def counted_loop(head: str, carried: str, steps: str, last: str) -> str:
    """Returns a function in IR of a loop of %n iterations, at least one.

    Args:
        head: its type and name.
        carried: values carried from iteration to iteration.
        steps: operations of an iteration.
        last: operations at the end.
    """
    return f"""
define {head}(i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{carried}
{steps}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
{last}
}}
"""


def _copies(lanes: int) -> str:
    """Returns IR that copies the memory block by block, in `passes` passes."""
    kind, width = f"<{lanes} x float>", 4 * lanes
    moves = "\n".join(
        f"  %p{at} = getelementptr i8, ptr %from, i64 {at}\n  %q{at} = getelementptr i8, ptr %to, i64 {at}\n"
        f"  %v{at} = load {kind}, ptr %p{at}, align {width}\n  store {kind} %v{at}, ptr %q{at}, align {width}"
        for at in range(0, _BLOCK, width)
    )
    steps = f"  %to = getelementptr i8, ptr %target, i64 %i\n{moves}"
    return _over_memory("void @copy(ptr noalias %target, ptr noalias %source", "", "", steps, "  ret void")


def _reads(lanes: int) -> str:
    """Returns IR that sums the memory block by block, in `passes` passes; each vector of a block has an accumulator."""
    kind, width = f"<{lanes} x float>", 4 * lanes
    zero, places = f"<{', '.join(['float 0.0'] * lanes)}>", range(0, _BLOCK, 4 * lanes)
    outer = "\n".join(f"  %o{at} = phi {kind} [ {zero}, %entry ], [ %s{at}, %ended ]" for at in places)
    inner = "\n".join(f"  %a{at} = phi {kind} [ %o{at}, %pass ], [ %s{at}, %loop ]" for at in places)
    sums = "\n".join(
        f"  %p{at} = getelementptr i8, ptr %from, i64 {at}\n  %v{at} = load {kind}, ptr %p{at}, align {width}\n"
        f"  %s{at} = fadd {kind} %a{at}, %v{at}"
        for at in places
    )
    total = "\n".join(f"  %t{at} = fadd {kind} %s{at}, {f'%t{at - width}' if at else zero}" for at in places)
    last = f"{total}\n  %r = extractelement {kind} %t{_BLOCK - width}, i32 0\n  ret float %r"
    return _over_memory("float @read(ptr %source", outer, inner, sums, last)


def _over_memory(head: str, outer: str, inner: str, steps: str, last: str) -> str:
    """Returns a function in IR that traverses the memory at %source block by block, in `passes` passes.

    Args:
        head: its type, name and first parameters.
        outer: values carried from pass to pass.
        inner: values carried from block to block.
        steps: operations on the block at %from, which is %i bytes in.
        last: operations at the end.
    """
    return f"""
define {head}, i64 %bytes, i64 %passes) {{
entry:
  br label %pass
pass:
  %j = phi i64 [ 0, %entry ], [ %later, %ended ]
{outer}
  br label %loop
loop:
  %i = phi i64 [ 0, %pass ], [ %next, %loop ]
{inner}
  %from = getelementptr i8, ptr %source, i64 %i
{steps}
  %next = add i64 %i, {_BLOCK}
  %more = icmp slt i64 %next, %bytes
  br i1 %more, label %loop, label %ended
ended:
  %later = add i64 %j, 1
  %again = icmp slt i64 %later, %passes
  br i1 %again, label %pass, label %end
end:
{last}
}}
"""
