"""The native code by which the threads of a team share out blocks of work, in the LLVM dialect (see team_code.py and
team_calls.py).

The calling thread never waits for a thread that has not begun: it announces a range of blocks and starts on its own
part, and helpers that are awake start on theirs. Whoever is done goes on with what is left of the other parts. So a
helper that the system does not run, because another team or program has its core, costs nothing.

A team is memory that the runtime provides, zeroed but for the number of threads. Lines that different threads write
are far apart:

    0    threads     how many, the caller included
    128  epoch       what is announced: odd while it changes
    136  part        void part(args, first, last): does some blocks
    144  args        what `part` works on
    152  first, 160 last: the blocks
    168  active      the length of the call that is under way: 1 long, 2 short; 0 where none is
    176  ended       when the last call ended, in nanoseconds
    256  done        how many blocks helpers have done
    384  sleepers    whether somebody sleeps until the epoch changes
    512  claims      128 bytes per thread: the epoch, and in 20 bits the first block of the part that nobody has claimed

Only who claims a block does it, by an exchange that fails if another has been quicker or if the epoch is over. A helper
reads the announcement between two looks at the epoch, so that it never mixes two of them.
"""

from __future__ import annotations

from ..target import Target
from . import team_calls, team_code
from .clock import clock_text

LONG, SHORT = 1, 2
"""What a call says of itself when it begins: whether it is worth waking threads for."""

BEGIN, SHARE, END, WORK = "stepwell_begin", "stepwell_share", "stepwell_end", "stepwell_work"

# How long a thread waits for another, in looks at memory. At first it pauses between two (about 40 ns); then it lets
# others have its core between them (0.3 us where there are none), for it may be the very core that the other one needs.
# A helper that has found nothing for a while goes to sleep: to wake it costs its caller about 15 us, so that it sleeps
# later while a call is under way than between calls, and that a short call wakes nobody unless it is one of many.
_PAUSES, _LOOKS_IN_CALL, _LOOKS_BETWEEN_CALLS = 4000, 10000, 4200

# A call that begins so soon after the last was made in a loop, as the next one will be.
_RECENT_NS = 150_000

_FIELD = "llvm.getelementptr %team[{offset}] : (!llvm.ptr) -> !llvm.ptr, i8"


def module_text(target: Target) -> str:
    """The functions `stepwell_begin`, `stepwell_share`, `stepwell_end` (internal) and `stepwell_work` as a module."""
    code = (team_code.CODE + team_calls.CODE).format(
        pauses=_PAUSES,
        in_call=_LOOKS_IN_CALL,
        between_calls=_LOOKS_BETWEEN_CALLS,
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
_FUTEX = {"x86_64": 202, "aarch64": 98}
_WAIT_PRIVATE, _WAKE_PRIVATE = 128, 129


def _rest(target: Target) -> str:
    """How to sleep until an address holds something else, and how to end that: Linux's futex; elsewhere a nap."""
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
