"""Values passed between the threads that share a row: shuffles within a warp, shared memory between warps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, gpu

from .. import memory
from ..integers import Int, both, constant
from ..loops import when
from .axes import element_bytes
from .schedule import WARP

Combine = Callable[[ir.Value, ir.Value], ir.Value]

# What every array in shared memory begins at a multiple of.
_ALIGNMENT = 16


def from_lane(value: ir.Value, distance: int) -> ir.Value:
    """The value of the thread whose number in the warp differs in the bit `distance`."""
    kind = value.type
    bits = kind.width if isinstance(kind, (ir.IntegerType, ir.FloatType)) else 64
    i32 = ir.IntegerType.get_signless(32)
    if isinstance(kind, ir.FloatType) and bits != 32:
        whole = ir.IntegerType.get_signless(bits)
        return arith.bitcast(kind, from_lane(arith.bitcast(whole, value), distance))
    if bits < 32:
        return arith.trunci(kind, from_lane(arith.extui(i32, value), distance))
    if bits == 64:
        halves = [arith.trunci(i32, value), arith.trunci(i32, arith.shrui(value, constant(32, 64)))]
        low, high = (arith.extui(kind, from_lane(half, distance)) for half in halves)
        return arith.ori(low, arith.shli(high, constant(32, 64)))
    shuffle = gpu.ShuffleOp(value, constant(distance), constant(WARP), gpu.ShuffleMode.XOR)
    return shuffle.results[0]


def across_lanes(value: ir.Value, combine: Combine, lanes: int) -> ir.Value:
    """The values of `lanes` neighbouring threads of a warp combined, in each of them; a power of two."""
    distance = lanes // 2
    while distance:
        value = combine(value, from_lane(value, distance))
        distance //= 2
    return value


def across_warps(
    values: Sequence[ir.Value],
    combines: Sequence[Combine],
    shared: ir.Value,
    first: int,
    thread: Int,
    threads: int,
    warps: int,
) -> list[ir.Value]:
    """What `warps` neighbouring warps hold, the same in all lanes of each, combined, in every thread.

    Args:
        values: what a thread holds.
        combines: how each is combined.
        shared: shared memory.
        first: the first byte of shared memory that nothing else uses.
        thread: the thread's number in its block.
        threads: threads of the block.
        warps: a power of two.
    """
    warp, lane = divmod(thread, WARP)
    arrays = _arrays(values, first, threads // WARP)
    with when(lane.equals(0)):
        for value, array in zip(values, arrays, strict=True):
            memory.store(value, _slot(shared, value.type, array, warp), _bytes(value))
    gpu.barrier()
    source = (warp // warps) * warps + lane % warps
    parts = [_load(shared, value.type, array, source) for value, array in zip(values, arrays, strict=True)]
    return [across_lanes(part, combine, warps) for part, combine in zip(parts, combines, strict=True)]


def across_columns(
    values: Sequence[ir.Value],
    combines: Sequence[Combine],
    shared: ir.Value,
    first: int,
    thread: Int,
    threads: int,
    across: int,
) -> list[ir.Value]:
    """What the threads hold whose numbers differ by multiples of `across`, combined, in each of them.

    First within each warp; then, of every column, so many neighbouring threads as there are warps take one warp's each.

    Args:
        values: what a thread holds.
        combines: how each is combined.
        shared: shared memory.
        first: the first byte of shared memory that nothing else uses.
        thread: the thread's number in its block.
        threads: threads of the block.
        across: columns, a power of two, at most a warp.
    """
    values = [_across_rows_of_warp(value, combine, across) for value, combine in zip(values, combines, strict=True)]
    warps = threads // WARP
    if warps == 1:
        return list(values)
    warp, lane = divmod(thread, WARP)
    column = lane % across
    arrays = _arrays(values, first, threads // WARP * across)
    with when(lane.below(across) if across < WARP else None):
        for value, array in zip(values, arrays, strict=True):
            memory.store(value, _slot(shared, value.type, array, _crossed(column, warp, warps)), _bytes(value))
    gpu.barrier()
    mine, part = divmod(thread, warps)
    is_column = mine.below(across) if across < WARP else None
    mine = mine.where(is_column, 0)
    totals = []
    for value, combine, array in zip(values, combines, arrays, strict=True):
        loaded = _load(shared, value.type, array, _crossed(mine, part, warps))
        totals.append(across_lanes(loaded, combine, warps))
    gpu.barrier()
    with when(both(part.equals(0), is_column)):
        for total, array in zip(totals, arrays, strict=True):
            memory.store(total, _slot(shared, total.type, array, mine), _bytes(total))
    gpu.barrier()
    return [_load(shared, value.type, array, column) for value, array in zip(values, arrays, strict=True)]


def _across_rows_of_warp(value: ir.Value, combine: Combine, across: int) -> ir.Value:
    distance = WARP // 2
    while distance >= across:
        value = combine(value, from_lane(value, distance))
        distance //= 2
    return value


def _crossed(column: Int, warp: Int, warps: int) -> Int:
    """Where a warp's part of a column lies.

    A warp that writes its part of 32 columns meets every bank once, as does one that reads all parts of a few columns.
    """
    return column * warps + (warp ^ (column // (WARP // warps)) % warps)


def bytes_between_warps(types: Sequence[ir.Type], threads: int) -> int:
    """The shared memory that `across_warps` needs for values of some types."""
    return sum(_array_bytes(kind, threads // WARP) for kind in types)


def bytes_between_columns(types: Sequence[ir.Type], threads: int, across: int) -> int:
    """The shared memory that `across_columns` needs for values of some types."""
    warps = threads // WARP
    return sum(_array_bytes(kind, warps * across) for kind in types) if warps > 1 else 0


def tree(parts: Sequence[ir.Value], combine: Combine) -> ir.Value:
    """Values combined by pairs, and the pairs by pairs."""
    while len(parts) > 1:
        pairs = [combine(left, right) for left, right in zip(parts[::2], parts[1::2], strict=False)]
        parts = [*pairs, *parts[2 * len(pairs) :]]
    return parts[0]


def _arrays(values: Sequence[ir.Value], first: int, length: int) -> list[int]:
    """Where in shared memory the arrays of several values begin."""
    begins = [first]
    for value in values:
        begins.append(begins[-1] + _array_bytes(value.type, length))
    return begins[:-1]


def _array_bytes(kind: ir.Type, length: int) -> int:
    return -(-element_bytes(kind) * length // _ALIGNMENT) * _ALIGNMENT


def _slot(shared: ir.Value, kind: ir.Type, array: int, number: Int) -> ir.Value:
    base = memory.element_pointer(shared, ir.IntegerType.get_signless(8), Int(0), array)
    return memory.element_pointer(base, kind, number)


def _load(shared: ir.Value, kind: ir.Type, array: int, number: Int) -> ir.Value:
    return memory.load(kind, _slot(shared, kind, array, number), element_bytes(kind))


def _bytes(value: ir.Value) -> int:
    return element_bytes(value.type)
