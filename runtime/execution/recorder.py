"""Instrumented native code: records the start, end, thread and blocks of work of each kernel call.

The kernels are unchanged. The linker only inserts a function of the same name between the entry function and each
kernel. It reads the clock, calls the kernel, reads the clock again, and writes a row:

    kernel      index of the kernel in the program's table
    start, end  nanoseconds of the monotonic clock
    thread      identifier of the thread
    first, last range of the kernel's blocks that were computed; 0 and 0 if it has none
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ...support.errors import ArtefactError
from ...support.short_repr import short_repr
from ..host.fallback import Fallback
from ..launch_plan import Launch
from ..memory import aligned_empty
from ..native import loader, orc
from ..program import ENTRY, WORK, KernelInfo, Program

COLUMNS = ("kernel", "start", "end", "thread", "first", "last")
_ROW = 8
"""Numbers of a row: the columns, and two that fill a cache line."""
_ROOM = 4096
"""Rows that a buffer has room for at first, 256 KiB: a choice; it grows if a call has more."""
_THREAD = "stepwell_thread"


@short_repr
@dataclass(frozen=True)
class Recording:
    """One call of a program.

    Attributes:
        program: the program that was called.
        start: start in nanoseconds of the monotonic clock.
        end: end in nanoseconds of the monotonic clock.
        thread: identifier of the calling thread, as in the rows.
        is_whole: whether all rows fitted into the buffer.
        rows: a row for each time that a thread worked on a kernel, with the columns `COLUMNS`, ordered by end.
    """

    program: Program
    start: int
    end: int
    thread: int
    is_whole: bool
    rows: np.ndarray


class CallRecorder:
    """Loads programs so that their calls are recorded. Calls must come from one thread at a time.

    Attributes:
        nodes: the nodes that have run on the host, each with its start and end.
    """

    def __init__(self) -> None:
        self._calls: list[tuple[Program, int, int, int, bool, np.ndarray]] = []
        self.nodes: list[tuple[Fallback, int, int]] = []

    @property
    def recordings(self) -> list[Recording]:
        """The calls recorded so far."""
        return [Recording(*taken) for taken in self._calls]

    def clear(self) -> None:
        """Discards all recordings."""
        self._calls.clear()
        self.nodes.clear()

    def note_steps(self, program: Program, start: int, seconds: Sequence[float]) -> None:
        """Records a call of a GPU program, whose steps ran one after the other.

        A kernel consists of one or several launches, and its time is their sum.

        Args:
            program: the program that was called.
            start: start in nanoseconds of the monotonic clock.
            seconds: duration of each step of its launch plan in seconds.
        """
        assert program.launches is not None
        numbers = {kernel.name: number for number, kernel in enumerate(program.kernels)}
        steps, ends = program.launches.steps, np.cumsum([0, *seconds]) * 1e9 + start
        rows, first = [], None
        for place, step in enumerate(steps):
            if not isinstance(step, Launch) or step.kernel not in numbers:
                continue
            begun, entry = first = first or (place, step.entry)
            following = steps[place + 1] if place + 1 < len(steps) else None
            if isinstance(following, Launch) and following.kernel == step.kernel and following.entry != entry:
                continue
            number = numbers[step.kernel]
            rows.append((number, ends[begun], ends[place + 1], 0, 0, program.kernels[number].blocks, 0, 0))
            first = None
        table = np.array(rows).round().astype(np.int64).reshape(len(rows), _ROW)
        self._calls.append((program, start, round(ends[-1]), 0, True, table))

    def load(self, program: Program, symbols: Mapping[str, int] = MappingProxyType({})) -> loader.NativeCode:
        """Loads a program's code with its kernels instrumented.

        Args:
            program: the program.
            symbols: addresses of functions that its objects call, besides those of the process, by name.

        Raises:
            ArtefactError: the code cannot be linked here.
        """
        try:
            return self._load(program, symbols)
        except orc.NativeCodeError as error:
            raise ArtefactError(f"the instrumented code cannot be linked: {error}") from error

    def _load(self, program: Program, symbols: Mapping[str, int]) -> loader.NativeCode:
        if ENTRY not in program.objects or any(not kernel.arguments for kernel in program.kernels):
            raise ArtefactError("the code cannot be profiled: it does not record how its kernels are called")
        ends = {name: program.objects[name] for name in (ENTRY, WORK) if name in program.objects}
        kernels = _Kernels(program, symbols)
        head = aligned_empty(64).view(np.int64)
        # Kernels that a device provides are called through a recorder like the others.
        names = {kernel.name for kernel in program.kernels}
        code = orc.load_objects(ends, {name: place for name, place in symbols.items() if name not in names})
        code.add_ir(_recorders(program.kernels, kernels.addresses, head.ctypes.data))
        entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address(ENTRY))
        thread = ctypes.CFUNCTYPE(ctypes.c_int64)(code.address(_THREAD))
        rows, me, clock = _Rows(head), [], time.monotonic_ns

        def run(table: Any) -> None:
            rows.clear()
            start = clock()
            entry(table)
            end = clock()
            if not me:
                me.append(thread())
            self._calls.append((program, start, end, me[0], *rows.taken()))

        owner = _Owned(code, (kernels, rows))
        return loader.NativeCode(run, owner)  # pyright: ignore[reportArgumentType]


class _Owned(orc.OrcCode):
    """Linked code, and the objects it refers to by address."""

    def __init__(self, code: orc.OrcCode, parts: Any) -> None:
        self._code, self._parts = code, parts

    def address(self, symbol: str) -> int:
        return self._code.address(symbol)


class _Kernels:
    """The addresses of a program's kernels, in its library or its objects."""

    def __init__(self, program: Program, symbols: Mapping[str, int]) -> None:
        self.addresses: list[int] = []
        if program.library is None:
            self._code = orc.load_objects({k: v for k, v in program.objects.items() if k not in (ENTRY, WORK)}, symbols)
            self.addresses = [self._code.address(kernel.name) for kernel in program.kernels]
            return
        self._code = loader.load(program)
        library = self._code.owner
        for kernel in program.kernels:
            function = getattr(library, kernel.name)
            self.addresses.append(ctypes.cast(function, ctypes.c_void_p).value or 0)


class _Rows:
    """The buffer that rows are written to; rows that do not fit are only counted."""

    def __init__(self, head: np.ndarray) -> None:
        self._head = head.data  # faster to read than an array
        self._make_room(_ROOM)

    def clear(self) -> None:
        """Discards all rows, and enlarges the buffer if the last rows did not fit."""
        if self._head[0] > self._count:
            self._make_room(2 * self._head[0])
        self._head[0] = 0

    def taken(self) -> tuple[bool, np.ndarray]:
        """Returns whether all rows fitted, and a copy of those that did."""
        count = self._head[0]
        return count <= self._count, self._rows[:count].copy()

    def _make_room(self, count: int) -> None:
        self._rows = aligned_empty(8 * _ROW * count).view(np.int64).reshape(count, _ROW)
        self._count = count
        self._head[0], self._head[1], self._head[2] = 0, count, self._rows.ctypes.data


def _recorders(kernels: Sequence[KernelInfo], addresses: Sequence[int], head: int) -> str:
    parts = [_COMMON.format(head=head, thread=_THREAD)]
    for index, (kernel, address) in enumerate(zip(kernels, addresses, strict=True)):
        count = kernel.arguments
        given = ", ".join(f"i64 %a{at}" for at in range(count))
        first, last = (f"%a{count - 2}", f"%a{count - 1}") if kernel.blocks else ("0", "0")
        parts.append(
            f"define void @{kernel.name}({given}) {{\n"
            "  %start = call i64 @now()\n"
            f"  call void inttoptr (i64 {address} to ptr)({given})\n"
            f"  call void @record(i64 {index}, i64 %start, i64 {first}, i64 {last})\n"
            "  ret void\n}\n"
        )
    return "\n".join(parts)


_COMMON = f"""
declare ptr @llvm.thread.pointer()
declare i32 @clock_gettime(i32, ptr)

define i64 @{{thread}}() {{{{
  %pointer = call ptr @llvm.thread.pointer()
  %number = ptrtoint ptr %pointer to i64
  ret i64 %number
}}}}

define internal i64 @now() {{{{
  %time = alloca [2 x i64]
  %failed = call i32 @clock_gettime(i32 {time.CLOCK_MONOTONIC}, ptr %time)
  %seconds = load i64, ptr %time
  %rest_at = getelementptr i8, ptr %time, i64 8
  %rest = load i64, ptr %rest_at
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}}}}

define internal void @record(i64 %kernel, i64 %start, i64 %first, i64 %last) {{{{
  %end = call i64 @now()
  %thread = call i64 @{{thread}}()
  %head = inttoptr i64 {{head}} to ptr
  %row = atomicrmw add ptr %head, i64 1 monotonic
  %room_at = getelementptr i64, ptr %head, i64 1
  %room = load i64, ptr %room_at
  %fits = icmp ult i64 %row, %room
  br i1 %fits, label %write, label %return
write:
  %rows_at = getelementptr i64, ptr %head, i64 2
  %rows = load ptr, ptr %rows_at
  %at = getelementptr [{_ROW} x i64], ptr %rows, i64 %row
  store i64 %kernel, ptr %at
  %p1 = getelementptr i64, ptr %at, i64 1
  store i64 %start, ptr %p1
  %p2 = getelementptr i64, ptr %at, i64 2
  store i64 %end, ptr %p2
  %p3 = getelementptr i64, ptr %at, i64 3
  store i64 %thread, ptr %p3
  %p4 = getelementptr i64, ptr %at, i64 4
  store i64 %first, ptr %p4
  %p5 = getelementptr i64, ptr %at, i64 5
  store i64 %last, ptr %p5
  br label %return
return:
  ret void
}}}}
"""
