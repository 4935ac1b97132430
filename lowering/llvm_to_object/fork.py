"""Parallel regions that cost nothing when there is one thread.

libomp runs a region of one thread by itself, but allocates memory for it each time. So a region is entered through a
function that calls its body directly where there is nothing to share out:

    call void (ptr, i32, ptr, ...) @__kmpc_fork_call(ptr @1, i32 1, ptr @body, ptr %captured)
    --> call void @stepwell.fork(ptr @1, ptr @body, ptr %captured)
"""

from __future__ import annotations

import re

_CALL = re.compile(
    r"call void \(ptr, i32, ptr, \.\.\.\) @__kmpc_fork_call\((?P<place>ptr @[^,]+), i32 [01], (?P<body>ptr @[^,)]+)"
    r"(?:, (?P<captured>ptr %[^,)]+))?\)"
)

# The body shares its loops out among the threads of the current team: this thread alone, when no region is active.
_FORK = """
define internal void @stepwell.fork(ptr %place, ptr %body, ptr %captured) {
  %threads = call i32 @omp_get_max_threads()
  %level = call i32 @omp_get_level()
  %single = icmp eq i32 %threads, 1
  %outermost = icmp eq i32 %level, 0
  %alone = and i1 %single, %outermost
  br i1 %alone, label %serial, label %parallel
serial:
  %thread = alloca i32
  %zero = alloca i32
  %number = call i32 @__kmpc_global_thread_num(ptr %place)
  store i32 %number, ptr %thread
  store i32 0, ptr %zero
  call void %body(ptr %thread, ptr %zero, ptr %captured)
  ret void
parallel:
  call void (ptr, i32, ptr, ...) @__kmpc_fork_call(ptr %place, i32 1, ptr %body, ptr %captured)
  ret void
}
declare i32 @omp_get_max_threads()
declare i32 @omp_get_level()
"""


def call_bodies_directly(text: str) -> str:
    """LLVM IR whose parallel regions do without libomp when there is one thread."""
    rewritten, count = _CALL.subn(_forked, text)
    return rewritten + _FORK if count else text


def _forked(call: re.Match[str]) -> str:
    return f"call void @stepwell.fork({call['place']}, {call['body']}, {call['captured'] or 'ptr null'})"
