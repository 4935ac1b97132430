"""Extents of needed elements, as conditions on the indices of loops."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, scf

from ...passes.ir.values import constant_index
from ..builders.linear_forms import LinearForm


@dataclass(frozen=True)
class Limit:
    """Extent of the needed elements along some dimensions that count as one.

    Attributes:
        extent: run-time number of elements of the dimension that varies.
        size: static number of elements of that dimension.
        inner: number of elements of all dimensions after it.
        is_outermost: whether it is the first of the dimensions.
    """

    extent: ir.Value
    size: int
    inner: int
    is_outermost: bool


def end_of(most: ir.Value, base: LinearForm, factor: int) -> ir.Value:
    """Returns the least index for which `base + factor * index` is at least `most`."""
    left = arith.SubIOp(most, apply(base)).result
    return left if factor == 1 else arith.CeilDivSIOp(left, constant_index(factor)).result


def is_row_needed(limit: Limit, index: ir.Value, factor: int, base: LinearForm, step: int) -> ir.Value:
    """Returns whether some of `step` iterations are of needed elements, by their position in their row."""
    start = arith.AddIOp(apply(base), arith.MulIOp(index, constant_index(factor)).result).result
    place = arith.RemUIOp(start, constant_index(limit.size * limit.inner)).result
    most = arith.MulIOp(limit.extent, constant_index(limit.inner)).result
    before = arith.CmpIOp(arith.CmpIPredicate.slt, place, most).result
    last = constant_index(limit.size * limit.inner - step * factor)
    return arith.OrIOp(before, arith.CmpIOp(arith.CmpIPredicate.sgt, place, last).result).result


def apply(linear: LinearForm) -> ir.Value:
    """Emits the value of a linear form."""
    base, terms = linear
    total = constant_index(base)
    for value, factor in terms:
        total = arith.AddIOp(total, arith.MulIOp(value, constant_index(factor)).result).result
    return total


def guard(loop: ir.Operation, condition: ir.Value) -> None:
    """Executes the rest of a loop's body only if a condition computed in it holds."""
    block = loop.regions[0].blocks[0]
    operations = [op.operation for op in block.operations]
    rest = operations[operations.index(condition.owner.operation) + 1 : -1]
    with loop.location, ir.InsertionPoint(operations[-1]):
        branch = scf.IfOp(condition)
        with ir.InsertionPoint(branch.then_block):
            end = scf.YieldOp([]).operation
    for op in rest:
        op.move_before(end)
