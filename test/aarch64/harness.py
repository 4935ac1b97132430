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
_TIMEOUT = 300

_SOURCE = Path(__file__).with_name("harness.ll")


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
    text = _SOURCE.read_text()
    with llvm.machine("aarch64-unknown-linux-gnu", "generic", "") as machine, llvm.parsed(text, machine) as module:
        return module.object()


@functools.cache
def _folder() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="stepwell-aarch64-", ignore_cleanup_errors=True)
    _FOLDERS.append(folder)
    return Path(folder.name)


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []
