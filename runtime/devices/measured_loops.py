"""Loops in LLVM IR that `measurement` runs: chains of dependent operations, and threads that hand on a value."""

from __future__ import annotations

from .. import processor

CHAIN = 64
"""Number of dependent operations in an iteration of `chain`."""

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
        element: LLVM's type of a lane: a float type, or i32 for sums of four products of bytes.
    """
    kind = f"<{lanes} x {element}>"
    phis = "\n".join(f"  %a{at} = phi {kind} [ zeroinitializer, %entry ], [ %b{at}, %loop ]" for at in range(SUMS))
    steps = "\n".join(f"  %b{at} = {_product(kind, lanes, element, f'%a{at}')}" for at in range(SUMS))
    kept = "\n".join(f'  call void asm sideeffect "", "{_register()}"({kind} %b{at})' for at in range(SUMS))
    declared = "" if element == "i32" else f"declare {kind} @llvm.fma.{_suffix(lanes, element)}({kind}, {kind}, {kind})"
    return f"""
{declared}
define void @{name}(i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{phis}
{steps}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
{kept}
  ret void
}}
"""


def _product(kind: str, lanes: int, element: str, start: str) -> str:
    if element != "i32":
        return f"call {kind} @llvm.fma.{_suffix(lanes, element)}({kind} {start}, {kind} {start}, {kind} {start})"
    text = "vpdpbusd $1, $1, $0" if _register() == "v" else "udot $0.4s, $1.16b, $1.16b"
    register = _register()
    return f'call {kind} asm "{text}", "={register},{register},0"({kind} zeroinitializer, {kind} {start})'


def _suffix(lanes: int, element: str) -> str:
    return f"v{lanes}{_FLOATS[element]}"


def _register() -> str:
    """Returns the constraint of a vector register in assembly."""
    return "w" if processor.architecture() == "aarch64" else "v"
