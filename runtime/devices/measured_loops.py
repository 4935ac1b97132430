"""Loops in LLVM IR that `measurement` runs: chains of dependent operations, and threads that pass on a value."""

from __future__ import annotations

import random
from collections.abc import Collection

from ...machines.matrix_units import LINE_BYTES, REGISTERS, ROWS, configuration
from .. import processor
from .peaks import counted_loop

CHAIN = 64
"""Number of dependent operations in an iteration of `chain`."""

_SUM = {"bfloat": "float"}
"""Types of sums that differ from the type of a lane."""

_FLOATS = {"float": "f32", "double": "f64", "half": "f16"}

SUMS = 12
"""Number of independent sums of multiply-adds in an iteration of `products`."""

_THREADS_AND_CHAINS = f"""
define i64 @chain(i64 %n, i64 %k) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %x0 = phi i64 [ %n, %entry ], [ %x{CHAIN}, %loop ]
{{steps}}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret i64 %x{CHAIN}
}}
define ptr @chase(ptr %start, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = phi ptr [ %start, %entry ], [ %q, %loop ]
  %q = load ptr, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret ptr %q
}}
define void @spin(ptr %mine, ptr %other, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %turn ]
  %next = add i64 %i, 1
  br label %wait
wait:
  %seen = load atomic i64, ptr %mine acquire, align 8
  %is_turn = icmp eq i64 %seen, %next
  br i1 %is_turn, label %turn, label %wait
turn:
  store atomic i64 %next, ptr %other release, align 8
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}}
define void @serve(ptr %mine, ptr %other, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %answered ]
  %next = add i64 %i, 1
  store atomic i64 %next, ptr %other release, align 8
  br label %wait
wait:
  %seen = load atomic i64, ptr %mine acquire, align 8
  %is_turn = icmp eq i64 %seen, %next
  br i1 %is_turn, label %answered, label %wait
answered:
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}}
declare i32 @sem_wait(ptr)
declare i32 @sem_post(ptr)
define void @sleep(ptr %mine, ptr %other, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %a = call i32 @sem_wait(ptr %mine)
  %b = call i32 @sem_post(ptr %other)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}}
"""


def chains() -> str:
    """Returns the functions `chain`, `chase`, `spin`, `serve` and `sleep`."""
    # An empty assembly statement hides each value from the compiler, so that it computes all of them.
    steps = "\n".join(
        f'  %y{at} = xor i64 %x{at}, %k\n  %x{at + 1} = call i64 asm sideeffect "", "=r,0"(i64 %y{at})'
        for at in range(CHAIN)
    )
    return _THREADS_AND_CHAINS.replace("{steps}", steps)


def products(name: str, lanes: int, element: str) -> str:
    """Returns the function `name`, which adds products to sums in registers.

    Args:
        name: its name.
        lanes: number of lanes of a register.
        element: LLVM's type of a lane: a float type, i32 for sums of four products of bytes, or bfloat for float sums
            of two products of bfloat16.
    """
    kind = f"<{lanes} x {_SUM.get(element, element)}>"
    phis = "\n".join(f"  %a{at} = phi {kind} [ zeroinitializer, %entry ], [ %b{at}, %loop ]" for at in range(SUMS))
    steps = "\n".join(_step(lanes, element, at) for at in range(SUMS))
    kept = "\n".join(f'  call void asm sideeffect "", "{_register()}"({kind} %b{at})' for at in range(SUMS))
    loop = counted_loop(f"void @{name}", phis, steps, f"{kept}\n  ret void")
    return f"{_declarations(lanes, element)}\n{loop}"


def tile_products(name: str) -> str:
    """Returns the function `name`, which adds products of bytes in tile registers (AMX) to four tiles of sums.

    An iteration multiplies each of two tiles of the input by each of two of the weight, as kernels do. Their bytes are
    random: with zeros, which take less power, the clock is up to a quarter higher.
    """
    config = ", ".join(f"i8 {byte}" for byte in configuration([(ROWS, LINE_BYTES)] * REGISTERS))
    steps = "\n".join(
        f"  call void @llvm.x86.tdpbusd(i8 {2 * row + column}, i8 {4 + row}, i8 {6 + column})"
        for row in range(2)
        for column in range(2)
    )
    zeros = "\n".join(f"  call void @llvm.x86.tilezero(i8 {number})" for number in range(_TILE_SUMS))
    loads = "\n".join(
        f"  %p{number} = getelementptr i8, ptr @{name}_bytes, i64 {LINE_BYTES * (number - _TILE_SUMS)}\n"
        f"  call void @llvm.x86.tileloadd64(i8 {number}, ptr %p{number}, i64 {LINE_BYTES})"
        for number in range(_TILE_SUMS, REGISTERS)
    )
    # The tiles of operands overlap, but no two are equal.
    size = LINE_BYTES * (ROWS + REGISTERS - _TILE_SUMS)
    data = ", ".join(f"i8 {byte}" for byte in random.Random(0).randbytes(size))
    declared = "\n".join(
        f"declare void @llvm.x86.{item}"
        for item in (
            "ldtilecfg(ptr)",
            "tilezero(i8)",
            "tileloadd64(i8, ptr, i64)",
            "tdpbusd(i8, i8, i8)",
            "tilerelease()",
        )
    )
    loop = counted_loop(f"void @{name}_loop", "", steps, "  ret void")
    return f"""{declared}
@{name}_bytes = private constant [{size} x i8] [{data}], align {LINE_BYTES}
{loop}
define void @{name}(i64 %n) {{
  %config = alloca <{LINE_BYTES} x i8>, align {LINE_BYTES}
  store <{LINE_BYTES} x i8> <{config}>, ptr %config
  call void @llvm.x86.ldtilecfg(ptr %config)
{zeros}
{loads}
  call void @{name}_loop(i64 %n)
  call void @llvm.x86.tilerelease()
  ret void
}}
"""


_TILE_SUMS = 4
"""Number of tiles of sums."""

TILE_PRODUCTS = _TILE_SUMS * ROWS * ROWS * LINE_BYTES
"""Products of bytes in an iteration of `tile_products`."""


def byte_products(features: Collection[str], lanes: int) -> tuple[str, ...] | None:
    """Returns the intrinsics that add products of bytes fastest to `lanes` sums of 32 bits; None if there are none.

    Without one for four products, pairs are summed in 16 bits, and these sums in 32.
    """
    if "dotprod" in features:
        return (f"llvm.aarch64.neon.udot.v{lanes}i32.v{4 * lanes}i8",)
    if features and ({"avx512vnni", "avx512vl"} <= set(features) or "avxvnni" in features):
        return (f"llvm.x86.avx512.vpdpbusd.{32 * lanes}",)
    return _PAIRS.get(lanes) if "avx2" in features else None


_PAIRS = {
    8: ("llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd"),
    16: ("llvm.x86.avx512.pmaddubs.w.512", "llvm.x86.avx512.pmaddw.d.512"),
}


def _step(lanes: int, element: str, at: int) -> str:
    """Returns the instructions that compute %b{at}: %a{at} plus products of itself with itself."""
    kind = f"<{lanes} x {element}>"
    start = f"{kind} %a{at}"
    if element == "bfloat":
        pairs = f"<{2 * lanes} x bfloat>"
        cast = f"  %x{at} = bitcast <{lanes} x float> %a{at} to {pairs}"
        sums = f"<{lanes} x float>"
        return f"{cast}\n  %b{at} = call {sums} @{_brain(lanes)}({sums} %a{at}, {pairs} %x{at}, {pairs} %x{at})"
    if element != "i32":
        return f"  %b{at} = call {kind} @llvm.fma.{_suffix(lanes, element)}({start}, {start}, {start})"
    names, bytes_ = _byte_intrinsics(lanes), f"<{4 * lanes} x i8>"
    cast = f"  %x{at} = bitcast {start} to {bytes_}"
    both = f"{bytes_} %x{at}, {bytes_} %x{at}"
    if len(names) == 1:
        return f"{cast}\n  %b{at} = call {kind} @{names[0]}({start}, {both})"
    pairs = f"<{2 * lanes} x i16>"
    return (
        f"{cast}\n  %p{at} = call {pairs} @{names[0]}({both})\n"
        f"  %q{at} = call {kind} @{names[1]}({pairs} %p{at}, {pairs} %p{at})\n  %b{at} = add {start}, %q{at}"
    )


def _declarations(lanes: int, element: str) -> str:
    kind = f"<{lanes} x {element}>"
    if element == "bfloat":
        pairs = f"<{2 * lanes} x bfloat>"
        return f"declare <{lanes} x float> @{_brain(lanes)}(<{lanes} x float>, {pairs}, {pairs})"
    if element != "i32":
        return f"declare {kind} @llvm.fma.{_suffix(lanes, element)}({kind}, {kind}, {kind})"
    names, bytes_, pairs = _byte_intrinsics(lanes), f"<{4 * lanes} x i8>", f"<{2 * lanes} x i16>"
    if len(names) == 1:
        return f"declare {kind} @{names[0]}({kind}, {bytes_}, {bytes_})"
    return f"declare {pairs} @{names[0]}({bytes_}, {bytes_})\ndeclare {kind} @{names[1]}({pairs}, {pairs})"


def _byte_intrinsics(lanes: int) -> tuple[str, ...]:
    names = byte_products(processor.features() or (), lanes)
    assert names is not None
    return names


def _brain(lanes: int) -> str:
    """Returns the intrinsic that adds products of two bfloat16 to each sum."""
    return f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"


def _suffix(lanes: int, element: str) -> str:
    return f"v{lanes}{_FLOATS[element]}"


def _register() -> str:
    """Returns the constraint of a vector register in assembly."""
    return "w" if processor.architecture() == "aarch64" else "v"
