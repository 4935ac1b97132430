"""Runs AArch64 code under `qemu-aarch64` (user mode): no C library, compiler or Python for AArch64 is needed.

The code is linked with a small program in LLVM IR to a static executable, by the linker of the runtime. The program
reads buffers from standard input, calls the code with the table of their addresses, and writes those that changed
to standard output. Each buffer ends at a page without access, so reads and writes past its end are faults.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from stepwell.lowering import llvm
from stepwell.runtime.native.elf_image import ElfImage
from stepwell.runtime.native.elf_machines import AARCH64
from stepwell.runtime.program import WORK, Program

from .memory import Memory

QEMU = "qemu-aarch64"
INSTALL = "AArch64 code runs under qemu-aarch64: install it (on Debian and Ubuntu: apt-get install qemu-user)"
READ, WRITE, ALIGNED = 1, 2, 4
"""Uses of a buffer: its contents are given, it is returned, its address is a multiple of 64."""

_BASE, _PAGE = 0x400000, 4096
_POOL_BYTES, _POOL_BYTES_PER_THREAD = 512, 128  # runtime/native/thread_pool.py
_TIMEOUT = 300

_SOURCE = r"""
module asm ".globl _start"
module asm "_start: mov x29, xzr; mov x30, xzr; bl harness"
; A thread's stack starts with its function and two arguments.
module asm "spawn: stp x1, x2, [x0, #-32]!; str x3, [x0, #16]; mov x1, x0; ldr x0, =0x50f00; mov x8, #220; svc #0"
module asm "cbnz x0, 1f; ldp x4, x0, [sp]; ldr x1, [sp, #16]; blr x4"
module asm "1: ret"

declare void @spawn(ptr, ptr, ptr, i64)
declare void @stepwell_main(ptr)
declare void @stepwell_work(ptr, i64)

define i64 @syscall(i64 %number, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f) {
  %result = call i64 asm sideeffect "svc #0", "={x0},{x8},{x0},{x1},{x2},{x3},{x4},{x5},~{memory}"(
    i64 %number, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f)
  ret i64 %result
}

define i32 @clock_gettime(i32 %clock, ptr %time) {
  %id = zext i32 %clock to i64
  %to = ptrtoint ptr %time to i64
  %result = call i64 @syscall(i64 113, i64 %id, i64 %to, i64 0, i64 0, i64 0, i64 0)
  %narrow = trunc i64 %result to i32
  ret i32 %narrow
}

define i32 @sched_yield() {
  %result = call i64 @syscall(i64 124, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  ret i32 0
}

define ptr @memset(ptr %to, i32 %value, i64 %size) {
entry:
  %byte = trunc i32 %value to i8
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %i, %size
  br i1 %more, label %body, label %done
body:
  %at = getelementptr i8, ptr %to, i64 %i
  store i8 %byte, ptr %at
  %next = add i64 %i, 1
  br label %head
done:
  ret ptr %to
}

define ptr @memmove(ptr %to, ptr %from, i64 %size) {
entry:
  %is_up = icmp ult ptr %to, %from
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %i, %size
  br i1 %more, label %body, label %done
body:
  %next = add i64 %i, 1
  %back = sub i64 %size, %next
  %place = select i1 %is_up, i64 %i, i64 %back
  %source = getelementptr i8, ptr %from, i64 %place
  %target = getelementptr i8, ptr %to, i64 %place
  %byte = load i8, ptr %source
  store i8 %byte, ptr %target
  br label %head
done:
  ret ptr %to
}

define ptr @memcpy(ptr %to, ptr %from, i64 %size) {
  %result = call ptr @memmove(ptr %to, ptr %from, i64 %size)
  ret ptr %result
}

; Subtracts the greatest doubling of the divisor that fits, until none fits: every difference is exact.
define double @fmod(double %x, double %y) {
entry:
  %rest = call double @llvm.fabs.f64(double %x)
  %divisor = call double @llvm.fabs.f64(double %y)
  %zeroed = fmul double %rest, 0.0
  %is_finite = fcmp oeq double %zeroed, 0.0
  %is_positive = fcmp ogt double %divisor, 0.0
  %is_defined = and i1 %is_finite, %is_positive
  br i1 %is_defined, label %head, label %undefined
undefined:
  ret double 0x7FF8000000000000
head:
  %left = phi double [ %rest, %entry ], [ %difference, %fits ]
  %more = fcmp oge double %left, %divisor
  br i1 %more, label %grow, label %done
grow:
  %part = phi double [ %divisor, %head ], [ %twice, %grow ]
  %twice = fadd double %part, %part
  %still = fcmp ole double %twice, %left
  br i1 %still, label %grow, label %fits
fits:
  %difference = fsub double %left, %part
  br label %head
done:
  %result = call double @llvm.copysign.f64(double %left, double %x)
  ret double %result
}

define float @fmodf(float %x, float %y) {
  %wide = fpext float %x to double
  %divisor = fpext float %y to double
  %rest = call double @fmod(double %wide, double %divisor)
  %result = fptrunc double %rest to float
  ret float %result
}

define internal void @exit(i64 %code) {
  %result = call i64 @syscall(i64 94, i64 %code, i64 0, i64 0, i64 0, i64 0, i64 0)
  ret void
}

; Reads (63) from standard input, or writes (64) to standard output, until `size` bytes are done.
define internal void @transfer(i64 %call, i64 %file, ptr %buffer, i64 %size) {
entry:
  br label %head
head:
  %at = phi ptr [ %buffer, %entry ], [ %next, %again ]
  %left = phi i64 [ %size, %entry ], [ %rest, %again ]
  %is_done = icmp eq i64 %left, 0
  br i1 %is_done, label %done, label %body
body:
  %address = ptrtoint ptr %at to i64
  %count = call i64 @syscall(i64 %call, i64 %file, i64 %address, i64 %left, i64 0, i64 0, i64 0)
  %is_good = icmp sgt i64 %count, 0
  br i1 %is_good, label %again, label %failed
again:
  %next = getelementptr i8, ptr %at, i64 %count
  %rest = sub i64 %left, %count
  br label %head
failed:
  call void @exit(i64 3)
  unreachable
done:
  ret void
}

; Returns `size` zeros that end at a page without access.
define internal ptr @new(i64 %size) {
  %more = add i64 %size, 4095
  %rounded = and i64 %more, -4096
  %whole = add i64 %rounded, 4096
  %start = call i64 @syscall(i64 222, i64 0, i64 %whole, i64 3, i64 34, i64 -1, i64 0)
  %end = add i64 %start, %rounded
  %done = call i64 @syscall(i64 226, i64 %end, i64 4096, i64 0, i64 0, i64 0, i64 0)
  %place = sub i64 %end, %size
  %result = inttoptr i64 %place to ptr
  ret ptr %result
}

define internal ptr @new_pool(i64 %threads) {
entry:
  %parts = mul i64 %threads, 128
  %size = add i64 %parts, 512
  %pool = call ptr @new(i64 %size)
  store i64 %threads, ptr %pool
  br label %head
head:
  %i = phi i64 [ 1, %entry ], [ %next, %body ]
  %more = icmp ult i64 %i, %threads
  br i1 %more, label %body, label %done
body:
  %stack = call ptr @new(i64 1048576)
  %top = getelementptr i8, ptr %stack, i64 1048576
  call void @spawn(ptr %top, ptr @stepwell_work, ptr %pool, i64 %i)
  %next = add i64 %i, 1
  br label %head
done:
  ret ptr %pool
}

; Standard input: the numbers of buffers, of threads and of places; size and use of each buffer; buffer and offset of
; each place; contents of the buffers that are given.
define void @harness() {
entry:
  %header = call ptr @new(i64 24)
  call void @transfer(i64 63, i64 0, ptr %header, i64 24)
  %count = load i64, ptr %header
  %threads_at = getelementptr i64, ptr %header, i64 1
  %threads = load i64, ptr %threads_at
  %sizes_size = mul i64 %count, 16
  %sizes = call ptr @new(i64 %sizes_size)
  call void @transfer(i64 63, i64 0, ptr %sizes, i64 %sizes_size)
  %places_at = getelementptr i64, ptr %header, i64 2
  %places = load i64, ptr %places_at
  %spots_size = mul i64 %places, 16
  %spots = call ptr @new(i64 %spots_size)
  call void @transfer(i64 63, i64 0, ptr %spots, i64 %spots_size)
  %buffers_size = mul i64 %count, 8
  %buffers = call ptr @new(i64 %buffers_size)
  %slots = add i64 %places, 1
  %table_size = mul i64 %slots, 8
  %table = call ptr @new(i64 %table_size)
  br label %make
make:
  %i = phi i64 [ 0, %entry ], [ %next, %made ]
  %some = icmp ult i64 %i, %count
  br i1 %some, label %body, label %put
body:
  %place = mul i64 %i, 2
  %size_at = getelementptr i64, ptr %sizes, i64 %place
  %size = load i64, ptr %size_at
  %use_at = getelementptr i64, ptr %size_at, i64 1
  %use = load i64, ptr %use_at
  %aligned = and i64 %use, 4
  %is_aligned = icmp ne i64 %aligned, 0
  %more = add i64 %size, 63
  %rounded = and i64 %more, -64
  %bytes = select i1 %is_aligned, i64 %rounded, i64 %size
  %buffer = call ptr @new(i64 %bytes)
  %buffer_at = getelementptr ptr, ptr %buffers, i64 %i
  store ptr %buffer, ptr %buffer_at
  %given = and i64 %use, 1
  %is_given = icmp ne i64 %given, 0
  br i1 %is_given, label %read, label %poison
read:
  call void @transfer(i64 63, i64 0, ptr %buffer, i64 %size)
  br label %made
poison:
  %poisoned = call ptr @memset(ptr %buffer, i32 255, i64 %size)
  br label %made
made:
  %next = add i64 %i, 1
  br label %make
put:
  %k = phi i64 [ 0, %make ], [ %later, %putting ]
  %unset = icmp ult i64 %k, %places
  br i1 %unset, label %putting, label %run
putting:
  %spot = mul i64 %k, 2
  %number_at = getelementptr i64, ptr %spots, i64 %spot
  %number = load i64, ptr %number_at
  %offset_at = getelementptr i64, ptr %number_at, i64 1
  %offset = load i64, ptr %offset_at
  %whole_at = getelementptr ptr, ptr %buffers, i64 %number
  %whole = load ptr, ptr %whole_at
  %part = getelementptr i8, ptr %whole, i64 %offset
  %slot = getelementptr ptr, ptr %table, i64 %k
  store ptr %part, ptr %slot
  %later = add i64 %k, 1
  br label %put
run:
  %is_shared = icmp ugt i64 %threads, 1
  br i1 %is_shared, label %start, label %call
start:
  %pool = call ptr @new_pool(i64 %threads)
  %last = getelementptr ptr, ptr %table, i64 %places
  store ptr %pool, ptr %last
  br label %call
call:
  call void @stepwell_main(ptr %table)
  br label %show
show:
  %j = phi i64 [ 0, %call ], [ %following, %shown ]
  %others = icmp ult i64 %j, %count
  br i1 %others, label %check, label %end
check:
  %their = mul i64 %j, 2
  %bytes_at = getelementptr i64, ptr %sizes, i64 %their
  %length = load i64, ptr %bytes_at
  %kind_at = getelementptr i64, ptr %bytes_at, i64 1
  %kind = load i64, ptr %kind_at
  %returned = and i64 %kind, 2
  %is_returned = icmp ne i64 %returned, 0
  br i1 %is_returned, label %write, label %shown
write:
  %from_at = getelementptr ptr, ptr %buffers, i64 %j
  %from = load ptr, ptr %from_at
  call void @transfer(i64 64, i64 1, ptr %from, i64 %length)
  br label %shown
shown:
  %following = add i64 %j, 1
  br label %show
end:
  call void @exit(i64 0)
  unreachable
}
"""


class EmulationError(Exception):
    """The emulated program ended with an error."""


def is_available() -> bool:
    """Returns whether the emulator is installed."""
    return shutil.which(QEMU) is not None


def run(
    objects: Mapping[str, bytes],
    buffers: Sequence[tuple[np.ndarray | int, int]],
    places: Sequence[tuple[int, int]] | None = None,
    *,
    threads: int = 1,
    cpu: str = "max",
) -> list[np.ndarray]:
    """Calls `stepwell_main` in `objects` with a table of addresses in `buffers`, followed by a thread pool.

    Args:
        objects: relocatable objects by name.
        buffers: contents, or size in bytes of uninitialised memory, and use of every buffer.
        places: number of a buffer, and offset in bytes in it, for each address; the starts of all buffers if None.
        threads: number of threads of the pool; without a pool if it is 1.
        cpu: the emulator's name of the processor.

    Returns:
        The contents of the buffers to `WRITE` after the call, as arrays of the same types and shapes, or of bytes.

    Raises:
        EmulationError: the code ends with a signal or needs a function that nothing defines.
    """
    sizes = [item if isinstance(item, int) else item.nbytes for item, _ in buffers]
    table = [value for size, (_, use) in zip(sizes, buffers, strict=True) for value in (size, use)]
    given = [np.ascontiguousarray(item).tobytes() for item, use in buffers if use & READ]
    spots = [(number, 0) for number in range(len(buffers))] if places is None else places
    numbers = [len(buffers), threads, len(spots), *table, *(value for spot in spots for value in spot)]
    request = b"".join([struct.pack(f"<{len(numbers)}Q", *numbers), *given])
    program = _program(frozenset(objects.items()))
    command = [QEMU, "-cpu", cpu, str(program)]
    done = subprocess.run(command, input=request, capture_output=True, check=False, timeout=_TIMEOUT)
    expected = sum(size for size, (_, use) in zip(sizes, buffers, strict=True) if use & WRITE)
    if done.returncode or len(done.stdout) != expected:
        raise EmulationError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.decode()}")
    results, start = [], 0
    for size, (item, use) in zip(sizes, buffers, strict=True):
        if use & WRITE:
            data = np.frombuffer(done.stdout, np.uint8, size, start)
            results.append(data if isinstance(item, int) else data.view(item.dtype).reshape(item.shape))
            start += size
    return results


def run_program(
    program: Program, inputs: Sequence[np.ndarray], *, threads: int = 1, cpu: str = "max"
) -> list[np.ndarray]:
    """Returns the outputs of a program, without the guards.

    Raises:
        EmulationError: the code ends with a signal, or a guard fails.
    """
    outputs = [np.empty([int(dim) for dim in info.shape], info.dtype) for info in program.outputs]
    holds = [np.empty((), np.bool_) for _ in program.guards]
    call(program, [np.ascontiguousarray(array) for array in inputs], outputs, holds, threads, cpu)
    failed = [guard for guard, held in zip(program.guards, holds, strict=True) if not held]
    if failed:
        raise EmulationError(f"guards fail: {', '.join(failed)}")
    return outputs


def call(
    program: Program,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    status: Sequence[np.ndarray],
    threads: int,
    cpu: str,
) -> None:
    """Calls a program as the runtime does: the arrays may have gaps between their rows and share memory.

    Args:
        program: the program.
        inputs: the inputs.
        outputs: the outputs, with room for the program's upper bounds. They are overwritten.
        status: the guards, then the counts. They are overwritten.
        threads: number of threads.
        cpu: the emulator's name of the processor.
    """
    rooms = [info.nbytes for info in program.outputs] + [array.nbytes for array in status]
    memory = Memory(inputs, [*outputs, *status], rooms)
    uses = [READ | WRITE if is_written else READ for is_written in memory.written]
    fixed = [*((array, READ | ALIGNED) for array in program.parameters.values()), (program.arena_bytes, ALIGNED)]
    buffers = [*zip(memory.regions, uses, strict=True), *fixed]
    places = memory.places + [(number, 0) for number in range(len(uses), len(buffers))]
    results = run(program.objects, buffers, places, threads=threads if program.uses_threads else 1, cpu=cpu)
    written = [region for region, use in zip(memory.regions, uses, strict=True) if use & WRITE]
    for region, result in zip(written, results, strict=True):
        region[...] = result


def undefined(objects: Mapping[str, bytes]) -> set[str]:
    """Returns the names of functions that `objects` need and neither they nor the harness define."""
    found: set[str] = set()

    def address_of(name: str) -> int:
        found.add(name)
        return 0

    ElfImage({**objects, "harness": _harness()}, AARCH64).at(_BASE, address_of)
    return found - {WORK}


@functools.lru_cache(maxsize=64)
def _program(objects: frozenset[tuple[str, bytes]]) -> Path:
    """Returns a static executable of the objects and the harness."""
    known = dict(sorted(objects))
    if missing := undefined(known):
        raise EmulationError(f"nothing defines {', '.join(sorted(missing))}")
    image = ElfImage({**known, "harness": _harness()}, AARCH64)
    code = image.at(_BASE, lambda _: 0)
    path = _folder() / hashlib.sha256(code).hexdigest()[:20]
    path.write_bytes(_executable(code, image.executable, _BASE + image.symbols["_start"]))
    path.chmod(0o755)
    return path


def _executable(code: bytes, executable: int, entry: int) -> bytes:
    """Returns an ELF file with the two parts of an image: code and constants, and variables."""
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, AARCH64.number, 1, entry, 64, 0, 0, 64, 56, 2, 0, 0, 0
    )
    segments = b""
    for flags, start, end in ((5, 0, executable), (6, executable, len(code))):
        size = end - start
        segments += struct.pack("<IIQQQQQQ", 1, flags, _PAGE + start, _BASE + start, _BASE + start, size, size, _PAGE)
    return (header + segments).ljust(_PAGE, b"\0") + code


@functools.cache
def _harness() -> bytes:
    with llvm.machine("aarch64-unknown-linux-gnu", "generic", "") as machine, llvm.parsed(_SOURCE, machine) as module:
        return module.object()


@functools.cache
def _folder() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="stepwell-aarch64-", ignore_cleanup_errors=True)
    _FOLDERS.append(folder)
    return Path(folder.name)


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []
