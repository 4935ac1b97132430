"""Loops and conditions of a GPU kernel, as context managers and functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from mlir import ir
from mlir.dialects import scf

from .integers import Int


@contextmanager
def when(condition: ir.Value | None) -> Iterator[None]:
    """Guards the code built inside by the condition (None: always executed)."""
    if condition is None:
        yield
        return
    branch = scf.IfOp(condition)
    with ir.InsertionPoint(branch.then_block):
        yield
        scf.yield_([])


def repeat(
    count: Int, carried: Sequence[ir.Value], body: Callable[[Int, Sequence[ir.Value]], Sequence[ir.Value]]
) -> list[ir.Value]:
    """Builds a loop of `count` iterations of `body(number, carried)`, which returns the next carried values."""
    loop = scf.ForOp(Int(0).ir, count.ir, Int(1).ir, list(carried))
    with ir.InsertionPoint(loop.body):
        scf.yield_(list(body(Int(loop.induction_variable), list(loop.inner_iter_args))))
    return list(loop.results)
