"""Native code of thread pools that distribute blocks of work, in the LLVM dialect.

The code is in thread_pool_code.py and thread_pool_calls.py. The calling thread never waits for a thread that has not
begun: it announces a range of blocks and starts on its own part, and workers that are awake start on theirs. A thread
that has finished its part continues with the rest of the other parts. So a worker that the system does not run,
because another pool or program uses its core, costs nothing.

A pool is memory that the runtime provides, zeroed except for the number of threads. Fields that different threads
write are in different cache lines:

    0    threads     number of threads, including the caller
    128  epoch       number of the announcement: odd while it changes
    136  part        void part(args, first, last): does some blocks
    144  args        arguments of `part`
    152  first, 160 last: the blocks
    168  active      length of the current call: 1 long, 2 short; 0 if there is none
    176  ended       time of the end of the last call, in nanoseconds
    256  done        number of blocks that workers have done
    384  sleepers    number of workers that sleep until the epoch changes
    512  claims      128 bytes per thread: the epoch, and in 20 bits the first unclaimed block of the thread's part

A thread does only blocks that it has claimed, by an exchange that fails if another thread was faster or the epoch
is over. A worker reads the announcement between two reads of the epoch, so that it never mixes two announcements.
"""

from __future__ import annotations

from ..target import Target
from . import thread_pool_calls, thread_pool_code
from .clock import clock_text

LONG, SHORT = 1, 2
"""Lengths of a call, given when it begins: sleeping threads are woken for a long call only."""

BEGIN, SHARE, END = "stepwell_begin", "stepwell_share", "stepwell_end"

# Waiting times of a thread, in polls of memory. At first it pauses between two polls (about 40 ns). Then it yields its
# core between them (0.3 us if no other thread wants it), as the thread that it waits for may need that very core. A
# worker that has found nothing for a while goes to sleep. Waking it costs the caller about 15 us, so workers sleep
# later during a call than between calls, and a short call wakes them only if it is one of many.
_PAUSES, _POLLS_IN_CALL, _POLLS_BETWEEN_CALLS = 4000, 10000, 4200

# Maximum time since the last call for a call to count as made in a loop, so that another one will follow.
_RECENT_NS = 150_000

_FIELD = "llvm.getelementptr %pool[{offset}] : (!llvm.ptr) -> !llvm.ptr, i8"


def module_text(target: Target) -> str:
    """Returns a module with `stepwell_begin`, `stepwell_share`, `stepwell_end` (internal) and `stepwell_work`."""
    code = (thread_pool_code.CODE + thread_pool_calls.CODE).format(
        pauses=_PAUSES,
        in_call=_POLLS_IN_CALL,
        between_calls=_POLLS_BETWEEN_CALLS,
        pause=_PAUSE[target.architecture],
        long=LONG,
        recent=_RECENT_NS,
        rest=_rest(target),
        **{name: _FIELD.format(offset=offset) for name, offset in _OFFSETS.items()},
    )
    return clock_text(1 if "linux" in target.triple else 6) + code


_OFFSETS = {
    "threads": 0,
    "epoch": 128,
    "part": 136,
    "args": 144,
    "first": 152,
    "last": 160,
    "active": 168,
    "ended": 176,
    "done": 256,
    "sleepers": 384,
    "claims": 512,
}
_PAUSE = {"x86_64": "pause", "aarch64": "isb"}
# The system call futex (asm/unistd.h), and its operations FUTEX_WAIT_PRIVATE and FUTEX_WAKE_PRIVATE (linux/futex.h).
_FUTEX = {"x86_64": 202, "aarch64": 98}
_WAIT_PRIVATE, _WAKE_PRIVATE = 128, 129


def _rest(target: Target) -> str:
    """Returns functions to sleep until an address changes and to wake sleepers: futexes on Linux, else naps."""
    if "linux" not in target.triple:
        return _NAPS
    return _FUTEXES.format(number=_FUTEX[target.architecture], wait=_WAIT_PRIVATE, wake=_WAKE_PRIVATE)


_FUTEXES = """
llvm.func @syscall(i64, ...) -> i64

llvm.func internal @stepwell.sleep(%address: !llvm.ptr, %seen: i64) {{
  %futex = llvm.mlir.constant({number} : i64) : i64
  %wait = llvm.mlir.constant({wait} : i32) : i32
  %value = llvm.trunc %seen : i64 to i32
  %forever = llvm.mlir.zero : !llvm.ptr
  %0 = llvm.call @syscall(%futex, %address, %wait, %value, %forever)
    vararg(!llvm.func<i64 (i64, ...)>) : (i64, !llvm.ptr, i32, i32, !llvm.ptr) -> i64
  llvm.return
}}

llvm.func internal @stepwell.wake(%address: !llvm.ptr) {{
  %futex = llvm.mlir.constant({number} : i64) : i64
  %wake = llvm.mlir.constant({wake} : i32) : i32
  %all = llvm.mlir.constant(2147483647 : i32) : i32
  %0 = llvm.call @syscall(%futex, %address, %wake, %all)
    vararg(!llvm.func<i64 (i64, ...)>) : (i64, !llvm.ptr, i32, i32) -> i64
  llvm.return
}}
"""

_NAPS = """
llvm.func @usleep(i32) -> i32

llvm.func internal @stepwell.sleep(%address: !llvm.ptr, %seen: i64) {
  %microseconds = llvm.mlir.constant(200 : i32) : i32
  %0 = llvm.call @usleep(%microseconds) : (i32) -> i32
  llvm.return
}

llvm.func internal @stepwell.wake(%address: !llvm.ptr) {
  llvm.return
}
"""
