"""Parallel regions with one thread: no detour through libomp, which would allocate."""

from __future__ import annotations

from stepwell.lowering.llvm_to_object.fork import call_bodies_directly

CALL = "  call void (ptr, i32, ptr, ...) @__kmpc_fork_call(ptr @1, i32 {count}, ptr @kernel..omp_par{captured})\n"


def test_a_region_is_entered_through_the_fork() -> None:
    text = call_bodies_directly(CALL.format(count=1, captured=", ptr %structArg"))
    first = text.splitlines()[0]
    assert first == "  call void @stepwell.fork(ptr @1, ptr @kernel..omp_par, ptr %structArg)"
    assert "call void %body(ptr %thread, ptr %zero, ptr %captured)" in text


def test_a_region_that_captures_nothing() -> None:
    text = call_bodies_directly(CALL.format(count=0, captured=""))
    assert "@stepwell.fork(ptr @1, ptr @kernel..omp_par, ptr null)" in text


def test_code_without_regions_stays_as_it_is() -> None:
    text = "define void @f() {\n  ret void\n}\n"
    assert call_bodies_directly(text) == text
