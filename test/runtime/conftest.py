"""A tiny program made without the compiler: `y = x * scale + bias`, through the arena, and its number of threads."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable

import numpy as np
import pytest
from stepwell.runtime.processor import architecture
from stepwell.runtime.program import CodeTarget, KernelInfo, Program, TensorInfo
from stepwell.support.packages import llvm_file

F32 = np.dtype(np.float32)
TRIPLE = f"{architecture()}-unknown-linux-gnu"
_IR = """
declare float @floorf(float)

define void @stepwell_work(ptr %team, i64 %thread) {
  ret void
}

define void @stepwell_main(ptr %table) {
entry:
  %slot1 = getelementptr ptr, ptr %table, i64 1
  %slot2 = getelementptr ptr, ptr %table, i64 2
  %slot3 = getelementptr ptr, ptr %table, i64 3
  %slot4 = getelementptr ptr, ptr %table, i64 4
  %slot5 = getelementptr ptr, ptr %table, i64 5
  %slot6 = getelementptr ptr, ptr %table, i64 6
  %x = load ptr, ptr %table
  %y = load ptr, ptr %slot1
  %threads = load ptr, ptr %slot2
  %scale = load ptr, ptr %slot3
  %bias = load ptr, ptr %slot4
  %arena = load ptr, ptr %slot5
  %team = load ptr, ptr %slot6
  store i32 1, ptr %threads
  %alone = icmp eq ptr %team, null
  br i1 %alone, label %start, label %together
together:
  %count = load i32, ptr %team
  store i32 %count, ptr %threads
  br label %start
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  %px = getelementptr float, ptr %x, i64 %i
  %ps = getelementptr float, ptr %scale, i64 %i
  %pb = getelementptr float, ptr %bias, i64 %i
  %pa = getelementptr float, ptr %arena, i64 %i
  %py = getelementptr float, ptr %y, i64 %i
  %vx = load float, ptr %px
  %vs = load float, ptr %ps
  %product = fmul float %vx, %vs
  store float %product, ptr %pa
  %va = load float, ptr %pa
  %vb = load float, ptr %pb
  %sum = fadd float %va, %vb
  store float %sum, ptr %py
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, SIZE
  br i1 %done, label %exit, label %loop
exit:
  ret void
}
"""


@functools.cache
def native_object(size: int) -> bytes:
    """Returns the object file of the program for `size` elements."""
    llc = llvm_file("bin/llc")
    command = [str(llc), "-filetype=obj", "-relocation-model=pic", f"-mtriple={TRIPLE}", "-o", "-"]
    return subprocess.run(
        command, input=_IR.replace("SIZE", str(size)).encode(), capture_output=True, check=True
    ).stdout


@functools.cache
def make_program(rows: int = 2, columns: int = 3, cpu: str = "generic", features: tuple[str, ...] = ()) -> Program:
    """Makes `y = x * scale + bias` (scale 0, 1, 2..., bias a splat of 0.5), which also returns the thread count."""
    size = rows * columns
    return Program(
        inputs=(TensorInfo("x", F32, (rows, columns)),),
        outputs=(TensorInfo("y", F32, (rows, columns)), TensorInfo("threads", np.dtype(np.int32), ())),
        parameters={
            "scale": np.arange(size, dtype=np.float32).reshape(rows, columns),
            "bias": np.broadcast_to(np.float32(0.5), (rows, columns)),
        },
        arena_bytes=4 * size,
        target=CodeTarget(TRIPLE, cpu, features),
        objects={"main": native_object(size)},
        kernels=(KernelInfo("kernel_0", "elementwise", ("Mul_1", "Add_2"), flops=2 * size, bytes=16 * size),),
    )


def expected(x: np.ndarray) -> np.ndarray:
    """Returns the program's result, computed by numpy."""
    return x * np.arange(x.size, dtype=np.float32).reshape(x.shape) + np.float32(0.5)


@pytest.fixture
def program() -> Callable[..., Program]:
    """Makes programs by shape."""
    return make_program


@pytest.fixture
def reference() -> Callable[[np.ndarray], np.ndarray]:
    """Returns the function that computes such a program's result."""
    return expected
