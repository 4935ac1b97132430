"""Exchange of values between the threads that share a row: shuffles in a warp, shared memory between warps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, gpu

from .....machines.gpus import WARP
from ...instructions import memory
from ...instructions.integers import Int, both, constant
from ...instructions.loops import when
from .axes import element_bytes

CombineValues = Callable[[ir.Value, ir.Value], ir.Value]

# Alignment of arrays in shared memory, in bytes.
_ALIGNMENT = 16


def from_lane(value: ir.Value, distance: int) -> ir.Value:
    """Returns the value of the thread whose lane number differs in the bit `distance`."""
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


def across_lanes(value: ir.Value, combine: CombineValues, lanes: int) -> ir.Value:
    """Combines the values of `lanes` (a power of two) neighbouring threads of a warp; all get the result."""
    distance = lanes // 2
    while distance:
        value = combine(value, from_lane(value, distance))
        distance //= 2
    return value


def across_warps(
    values: Sequence[ir.Value],
    combines: Sequence[CombineValues],
    shared: ir.Value,
    first: int,
    thread: Int,
    threads: int,
    warps: int,
) -> list[ir.Value]:
    """Combines values of `warps` neighbouring warps, equal in all lanes of each, with the result in every thread.

    Args:
        values: the thread's values.
        combines: combining function of each value.
        shared: shared memory.
        first: first unused byte of shared memory.
        thread: index of the thread in its block.
        threads: number of threads in the block.
        warps: number of warps to combine, a power of two.
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
    combines: Sequence[CombineValues],
    shared: ir.Value,
    first: int,
    thread: Int,
    threads: int,
    across: int,
) -> list[ir.Value]:
    """Combines values of the threads whose numbers differ by multiples of `across`, with the result in each of them.

    Combines within each warp first. Then each of `warps` neighbouring threads per column loads the value of one warp.

    Args:
        values: the thread's values.
        combines: combining function of each value.
        shared: shared memory.
        first: first unused byte of shared memory.
        thread: index of the thread in its block.
        threads: number of threads in the block.
        across: number of columns, a power of two, at most a warp.
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


def _across_rows_of_warp(value: ir.Value, combine: CombineValues, across: int) -> ir.Value:
    distance = WARP // 2
    while distance >= across:
        value = combine(value, from_lane(value, distance))
        distance //= 2
    return value


def _crossed(column: Int, warp: Int, warps: int) -> Int:
    """Returns the index of a warp's part of a column in shared memory.

    A warp that writes its part of 32 columns accesses every bank once, as does one that reads all parts of a few
    columns.
    """
    return column * warps + (warp ^ (column // (WARP // warps)) % warps)


def bytes_between_warps(types: Sequence[ir.Type], threads: int) -> int:
    """Returns the shared memory in bytes that `across_warps` needs for values of these types."""
    return sum(_array_bytes(kind, threads // WARP) for kind in types)


def bytes_between_columns(types: Sequence[ir.Type], threads: int, across: int) -> int:
    """Returns the shared memory in bytes that `across_columns` needs for values of these types."""
    warps = threads // WARP
    return sum(_array_bytes(kind, warps * across) for kind in types) if warps > 1 else 0


def tree(parts: Sequence[ir.Value], combine: CombineValues) -> ir.Value:
    """Combines values in a binary tree."""
    while len(parts) > 1:
        pairs = [combine(left, right) for left, right in zip(parts[::2], parts[1::2], strict=False)]
        parts = [*pairs, *parts[2 * len(pairs) :]]
    return parts[0]


def _arrays(values: Sequence[ir.Value], first: int, length: int) -> list[int]:
    """Returns the offsets in shared memory of the arrays of several values."""
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
